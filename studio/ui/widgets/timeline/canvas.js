// What the canvases of one utterance and of a comparison share: size, colours and redraws.

const COLOURS = [
  "paper",
  "panel",
  "ink",
  "muted",
  "line",
  "faint",
  "accent",
  "accent-soft",
  "accent-ink",
  "stall",
  "warn",
  "good",
];

export class TimelineCanvas {
  constructor(canvas) {
    this.onDrawn = null;
    this.canvas = canvas;
    this.paint = canvas.getContext("2d", { alpha: false });
    this.axis = null; // set by the scene
    this.selection = null; // [startMs, endMs]
    this.drawn = 0; // times
  }

  /** Read the colours of the page's theme. */
  readColours() {
    const style = getComputedStyle(this.canvas);
    this.colours = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  /** Give the canvas its pixels; the visible span stays, unless it was the whole. */
  fitTo(width, height) {
    const scale = devicePixelRatio || 1;
    const { leftMs, rightMs } = this.axis;
    const isWhole = this.isWholeShown;
    this.canvas.style.blockSize = `${height}px`;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.scale = scale;
    this.axis.resize(width);
    if (isWhole) this.axis.fit();
    else this.axis.show(leftMs, rightMs);
    this.draw();
  }

  get isWholeShown() {
    const { leftMs, rightMs, startMs, endMs } = this.axis;
    return leftMs <= startMs && rightMs >= endMs;
  }

  /** Schedule a redraw in the next animation frame. */
  ask() {
    this.frameRequest ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frameRequest);
    this.frameRequest = undefined;
    if (this.canvas.width) this.drawAll();
  }

  drawAll() {
    throw new Error("each scene draws its own lanes");
  }

  /** Clear the canvas. */
  clear(height) {
    const { paint } = this;
    paint.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    paint.fillStyle = this.colours.panel;
    paint.fillRect(0, 0, this.axis.width, height);
  }

  /** Shade the selection below the ruler. */
  shade(top, height) {
    if (!this.selection) return;
    const [left, right] = this.selection.map((ms) => this.axis.x(ms));
    this.paint.fillStyle = this.colours["accent-soft"];
    this.paint.fillRect(left, top, right - left, height);
  }
}
