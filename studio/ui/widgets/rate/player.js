// One sound on the screen: a button, how far it is, and whether it has been heard.

import { h, icon } from "./dom.js";

const PLAY = "M4 2.5v11l9-5.5z";
const SHORT_S = 10; // below this, tenths are shown
const PAUSE = "M4 2.5h3v11H4zM9 2.5h3v11H9z";

export class Player {
  /** `name` is how the sound is called ("A", "Reference"); `share` is how much of it must be heard. */
  constructor(deck, slot, name, words, share) {
    Object.assign(this, { deck, slot, name, words, share });
    this.sign = icon(PLAY);
    this.press = h("button", { type: "button", class: "play", on: { click: () => deck.toggle(slot) } }, this.sign);
    this.heard = h("i", { class: "heard" });
    this.head = h("i", { class: "head" });
    this.track = h("div", { class: "track", "aria-hidden": "true", on: { click: (e) => this.leap(e) } }, this.heard, this.head);
    this.time = h("span", { class: "time", "aria-hidden": "true" });
    this.tick = h("span", { class: "tick", text: words.say("heard"), data: { on: "0" } });
    this.element = h("div", { class: "sound", data: { slot } }, this.press, h("b", { class: "name", text: name }), this.track, this.time, this.tick);
    this.draw();
  }

  leap(event) {
    const box = this.track.getBoundingClientRect();
    this.deck.seek(this.slot, ((event.clientX - box.left) / box.width) * this.deck.slots[this.slot].seconds);
  }

  draw() {
    const { deck, slot } = this;
    const { seconds, spans } = deck.slots[slot];
    const isOn = deck.isPlaying && deck.active === slot;
    const atS = deck.position(slot);
    if (this.isOn !== isOn) {
      this.isOn = isOn;
      this.sign.firstElementChild.setAttribute("d", isOn ? PAUSE : PLAY);
      this.press.setAttribute("aria-label", this.words.say(isOn ? "pause" : "play", { name: this.name }));
      this.element.classList.toggle("on", isOn);
    }
    this.head.style.insetInlineStart = `${(100 * atS) / seconds}%`;
    const heard = spans.list.map(([a, b]) => `linear-gradient(var(--mark) 0 0) ${place(a, b, seconds)} / ${(100 * (b - a)) / seconds}% 100% no-repeat`);
    const marked = heard.join(", ");
    if (this.marked !== marked) this.heard.style.background = this.marked = marked;
    const shown = seconds < SHORT_S ? `${atS.toFixed(1)} / ${seconds.toFixed(1)} s` : `${clock(atS)} / ${clock(seconds)}`;
    if (this.time.textContent !== shown) this.time.textContent = shown;
    this.tick.dataset.on = deck.isHeard(slot, this.share) ? "1" : "0";
    this.tick.hidden = this.share <= 0;
  }
}

const clock = (s) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`;

/** The background-position that puts a stretch at its place. */
function place(from, to, seconds) {
  const rest = seconds - (to - from);
  return rest <= 0 ? "0" : `${(100 * from) / rest}%`;
}
