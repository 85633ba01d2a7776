// The player of one sound: a play button, a track with the playhead, and a mark once it was heard.

import { h, icon } from "./dom.js";

const PLAY = "M4 2.5v11l9-5.5z";
const DRAG_PX = 6;
const SHORT_S = 10; // shorter sounds show tenths of a second
const PAUSE = "M4 2.5h3v11H4zM9 2.5h3v11H9z";

export class Player {
  /** `name` is the label ("A", "Reference"); `share` is the fraction that must be played. */
  constructor(deck, slot, name, words, share) {
    this.deck = deck;
    this.slot = slot;
    this.name = name;
    this.words = words;
    this.share = share;
    this.sign = icon(PLAY);
    this.press = h("button", { type: "button", class: "play", on: { click: () => deck.toggle(slot) } }, this.sign);
    this.playedTrack = h("i", { class: "heard" });
    this.head = h("i", { class: "head" });
    this.region = h("i", { class: "region" });
    this.track = h(
      "div",
      { class: "track", "aria-hidden": "true", on: { pointerdown: (e) => this.startPointer(e) } },
      this.playedTrack,
      this.region,
      this.head,
    );
    this.time = h("span", { class: "time", "aria-hidden": "true" });
    this.tick = h("span", { class: "tick", text: words.text("heard"), data: { on: "0" } });
    this.element = h(
      "div",
      { class: "sound", data: { slot } },
      this.press,
      h("b", { class: "name", text: name }),
      this.track,
      this.time,
      this.tick,
    );
    this.draw();
  }

  /** A click seeks; with synchronous sounds a drag sets the loop region. */
  startPointer(event) {
    const { track, deck } = this;
    const from = this.at(event);
    const beganX = event.clientX;
    const isDrag = (e) => deck.together && Math.abs(e.clientX - beganX) >= DRAG_PX;
    const over = new AbortController();
    const on = (type, listener) => track.addEventListener(type, listener, { signal: over.signal });
    const end = () => {
      over.abort();
      this.drawn = undefined; // redraw: the region may have been too short or cancelled
    };
    track.setPointerCapture(event.pointerId);
    on("pointermove", (e) => isDrag(e) && this.show(from, this.at(e)));
    on("pointercancel", end);
    on("pointerup", (e) => {
      end();
      if (isDrag(e)) return deck.repeat(Math.min(from, this.at(e)), Math.max(from, this.at(e)));
      deck.repeat(null);
      return deck.seek(this.slot, from);
    });
  }

  /** Pointer position in seconds. */
  at(event) {
    const box = this.track.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * this.deck.slots[this.slot].seconds;
  }

  show(from, to) {
    const { seconds } = this.deck.slots[this.slot];
    const [first, last] = [Math.min(from, to), Math.min(seconds, Math.max(from, to))];
    this.region.style.insetInlineStart = `${(100 * first) / seconds}%`;
    this.region.style.inlineSize = `${(100 * Math.max(0, last - first)) / seconds}%`;
  }

  draw() {
    const { deck, slot } = this;
    const { seconds, spans } = deck.slots[slot];
    const isOn = deck.isPlaying && deck.active === slot;
    const atS = deck.position(slot);
    if (this.isOn !== isOn) {
      this.isOn = isOn;
      this.sign.firstElementChild.setAttribute("d", isOn ? PAUSE : PLAY);
      this.press.setAttribute("aria-label", this.words.text(isOn ? "pause" : "play", { name: this.name }));
      this.element.classList.toggle("on", isOn);
    }
    this.head.style.insetInlineStart = `${(100 * atS) / seconds}%`;
    if (this.drawn !== deck.region) {
      this.drawn = deck.region;
      this.show(deck.region?.from ?? 0, deck.region?.to ?? 0);
    }
    const gradients = spans.list.map(
      ([a, b]) =>
        `linear-gradient(var(--mark) 0 0) ${place(a, b, seconds)} / ${(100 * (b - a)) / seconds}% 100% no-repeat`,
    );
    const background = gradients.join(", ");
    if (this.background !== background) this.playedTrack.style.background = this.background = background;
    const label =
      seconds < SHORT_S ? `${atS.toFixed(1)} / ${seconds.toFixed(1)} s` : `${clock(atS)} / ${clock(seconds)}`;
    if (this.time.textContent !== label) this.time.textContent = label;
    this.tick.dataset.on = deck.isHeard(slot, this.share) ? "1" : "0";
    this.tick.hidden = this.share <= 0;
  }
}

const clock = (s) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`;

/** The background-position of an interval. */
function place(from, to, seconds) {
  const rest = seconds - (to - from);
  return rest <= 0 ? "0" : `${(100 * from) / rest}%`;
}
