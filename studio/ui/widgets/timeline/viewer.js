// What the viewers of one utterance and of a comparison share: parts of the page, playhead, selection and zoom.

import { placePlayhead } from "./ruler.js";

const ZOOM = 1.6;

export class TimelineViewer {
  /** Subclasses set `scene` and `player`. */
  constructor(page) {
    this.page = page;
    this.scene = this.player = null;
    this.closing = new AbortController();
    page.dataset.state = "open";
    this.find(".view").hidden = false;
  }

  find(selector) {
    return this.page.querySelector(selector);
  }

  /** Listen to the buttons, and redraw on a new size or theme. */
  watch(resized, recoloured) {
    const { signal } = this.closing;
    for (const button of this.page.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => this.act(button.dataset.do), { signal });
    }
    this.size = new ResizeObserver(resized);
    this.size.observe(this.scene.canvas);
    this.theme = new MutationObserver(recoloured);
    this.theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  }

  close() {
    this.closing.abort();
    this.size.disconnect();
    this.theme.disconnect();
    this.player.close();
  }

  /** Do what a button or key says; subclasses have more commands. */
  act(name) {
    const { axis } = this.scene;
    if (name === "play") this.player.toggle();
    else if (name === "loop") this.loop(!this.player.loop);
    else if (name === "in") axis.zoom(ZOOM, axis.width / 2);
    else if (name === "out") axis.zoom(1 / ZOOM, axis.width / 2);
    else if (name === "fit") axis.fit();
    this.scene.ask();
    this.changed();
  }

  /** The keys of both viewers, by name. */
  get keys() {
    return {
      " ": () => this.act("play"),
      l: () => this.act("loop"),
      "+": () => this.act("in"),
      "=": () => this.act("in"),
      "-": () => this.act("out"),
      0: () => this.act("fit"),
      "[": () => this.step(-1),
      "]": () => this.step(1),
      Escape: () => this.select(null),
    };
  }

  /** The keys that move along the picture, from `firstMs` to `lastMs`. */
  moves(firstMs, lastMs) {
    const move = (part) => this.scene.axis.pan(part * this.scene.axis.spanMs);
    return {
      ArrowLeft: () => move(-0.15),
      ArrowRight: () => move(0.15),
      Home: () => this.jump(firstMs),
      End: () => this.jump(lastMs),
    };
  }

  /** Move the playhead, and scroll to it. */
  jump(ms) {
    const { axis } = this.scene;
    this.player.place(ms);
    if (ms < axis.leftMs || ms > axis.rightMs) axis.show(ms - axis.spanMs / 2, ms + axis.spanMs / 2);
    this.scene.ask();
  }

  select(span) {
    this.scene.selection = span;
    if (this.player.loop) this.player.loop = span;
    if (!span) this.scene.chosen = null;
    this.scene.ask();
    this.changed();
  }

  /** Scroll on while the playhead leaves the picture. */
  follow(ms) {
    const { axis } = this.scene;
    if (this.player?.isPlaying && !this.player.loop && ms > axis.rightMs) {
      axis.pan(0.9 * axis.spanMs);
      this.scene.ask();
    }
    this.placed();
  }

  /** Update the playhead and the overview bar. */
  placed() {
    placePlayhead(this.scene.axis, this.scene.atMs, this.find(".head"), this.find(".whole i"));
  }

  loop(_isOn) {}

  step(_by) {}

  changed() {}
}
