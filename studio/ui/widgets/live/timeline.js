// A picture of the last utterance: keys, segments and played words on one clock. The Inspect page shows more.

import { Scene } from "../inspect/scene.js";
import { t } from "../page/translate.js";
import { parse } from "../timeline/bundle.js";
import { delay } from "./figures.js";

const LANES = ["ruler", "typed", "made", "heard", "wave"];
const PX_PER_S = 72; // at least, so that words do not overlap; the box scrolls
const MAX_PX = 10000; // of a canvas
const MAX_BYTES = 20e6; // about five minutes of speech

export class Timeline {
  constructor(root, server) {
    this.part = root.querySelector(".timeline");
    this.canvas = this.part.querySelector("canvas");
    this.summary = this.part.querySelector("p");
    this.server = server;
    this.part.addEventListener("toggle", () => this.draw());
    this.canvas.addEventListener("click", () => root.querySelector('[data-get="inspect"]').click());
    this.size = new ResizeObserver(() => this.scene?.resize());
    this.size.observe(this.canvas);
    this.theme = new MutationObserver(() => this.scene?.recolour());
    this.theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  }

  /** Show the trace at an address; null removes the picture. */
  show(path) {
    this.path = path;
    this.scene = null;
    this.part.hidden = true;
    return this.draw();
  }

  /** Fetch and draw the trace; on failure there is no picture. */
  async draw() {
    const { path } = this;
    if (!path || this.scene) return;
    if (!this.part.open) {
      this.part.hidden = false;
      return;
    }
    try {
      const response = await fetch(new URL(path.replace(/\.trace$/, ".view"), this.server));
      if (!response.ok || Number(response.headers.get("Content-Length")) > MAX_BYTES) return;
      /** @type {any} */
      const parts = parse(await response.arrayBuffer());
      if (path !== this.path || this.scene) return;
      this.part.hidden = false;
      this.scene = new Scene(this.canvas, parts, LANES);
      const { start_ms: startMs, end_ms: endMs } = parts.view.timeline;
      this.canvas.style.minInlineSize = `${Math.min(MAX_PX, Math.ceil(((endMs - startMs) / 1000) * PX_PER_S))}px`;
      this.scene.resize();
      this.showLags(parts.view.facts.lags.known_to_heard_ms);
    } catch {
      // a lost connection is reported elsewhere
    }
  }

  showLags(lags) {
    this.summary.textContent = lags
      ? t("Median delay, word typed to heard: {half} (words: {count}; 95% within {most}).", {
          half: delay(lags.p50),
          count: lags.n,
          most: delay(lags.p95),
        })
      : "";
  }

  dispose() {
    this.size.disconnect();
    this.theme.disconnect();
  }
}
