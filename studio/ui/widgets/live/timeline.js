// The picture of the utterance that has just ended: what was typed, made and heard, over one clock. Inspect shows it whole.

const LANES = ["ruler", "typed", "made", "heard", "wave"];
const PX_PER_S = 72; // at least, so that words stand beside each other: what is wider than the page scrolls
const MOST_PX = 10000; // of a canvas
const MOST_BYTES = 20e6; // some five minutes of speech: more is looked at on a page of its own

export class Timeline {
  constructor(root, server) {
    this.part = root.querySelector(".timeline");
    this.canvas = this.part.querySelector("canvas");
    this.said = this.part.querySelector("p");
    this.server = server;
    this.part.addEventListener("toggle", () => this.draw());
    this.canvas.addEventListener("click", () => root.querySelector('[data-get="inspect"]').click());
    this.size = new ResizeObserver(() => this.scene?.resize());
    this.size.observe(this.canvas);
    this.theme = new MutationObserver(() => this.scene?.recolour());
    this.theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  }

  /** The address of a trace; null takes the picture away. */
  offer(path) {
    this.path = path;
    this.scene = null;
    this.part.hidden = true;
    return this.draw();
  }

  /**
   * Fetch and draw what is offered; a picture that cannot be had is left out, for nothing hangs on it. What draws it is
   * loaded only now: it must not delay the first sound.
   */
  async draw() {
    const { path } = this;
    if (!path || this.scene) return;
    if (!this.part.open) return void (this.part.hidden = false);
    try {
      const answer = await fetch(new URL(path.replace(/\.trace$/, ".view"), this.server));
      if (!answer.ok || Number(answer.headers.get("Content-Length")) > MOST_BYTES) return;
      const [{ parse }, { Scene }] = await Promise.all(["timeline/bundle", "inspect/scene"].map((name) => import(`../${name}.js`)));
      const parts = parse(await answer.arrayBuffer());
      if (path !== this.path || this.scene) return;
      this.part.hidden = false;
      this.scene = new Scene(this.canvas, parts, LANES);
      const { start_ms: startMs, end_ms: endMs } = parts.view.timeline;
      this.canvas.style.minInlineSize = `${Math.min(MOST_PX, Math.ceil(((endMs - startMs) / 1000) * PX_PER_S))}px`;
      this.scene.resize();
      this.told(parts.view.facts.lags.known_to_heard_ms);
    } catch {
      // the server has gone, which the page says elsewhere
    }
  }

  told(waits) {
    const ms = (value) => `${Math.round(value).toLocaleString("en")} ms`;
    this.said.textContent = waits ? `A word was heard ${ms(waits.p50)} after it was known (median of ${waits.n}; 95% within ${ms(waits.p95)}).` : "";
  }

  dispose() {
    this.size.disconnect();
    this.theme.disconnect();
  }
}
