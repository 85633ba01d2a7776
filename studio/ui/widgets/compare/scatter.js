// Scatter plot of word durations in two utterances.

import { FONT } from "../timeline/ruler.js";

const SIDE = 40; // margin for axis labels, px
const STEPS_MS = [50, 100, 200, 250, 500, 1000, 2000, 5000, 10000];
const NEAR_PX = 14;

export class Scatter {
  /** `chosen(row)` is called on a click on a point, `hovered(row | null)` on pointer moves. */
  constructor(canvas, chosen, hovered) {
    this.canvas = canvas;
    this.paint = canvas.getContext("2d", { alpha: false });
    this.points = [];
    this.row = null;
    this.closing = new AbortController();
    const signal = { signal: this.closing.signal };
    canvas.addEventListener(
      "pointermove",
      (e) => {
        const row = this.near(e);
        if (row === this.row && row === null) return;
        hovered(row);
        this.choose(row);
      },
      signal,
    );
    canvas.addEventListener("click", (e) => this.near(e) !== null && chosen(this.near(e)), signal);
  }

  close() {
    this.closing.abort();
  }

  show({ takes, rows }, one, other) {
    this.labels = [one + 1, other + 1];
    const length = (k, index) => 1000 * (takes[k].said[index][2] - takes[k].said[index][1]);
    this.points = rows.flatMap((row, i) =>
      row[one] === null || row[other] === null
        ? []
        : [{ row: i, text: takes[one].said[row[one]][0], x: length(one, row[one]), y: length(other, row[other]) }],
    );
    this.mostMs = 1.06 * Math.max(100, ...this.points.flatMap(({ x, y }) => [x, y]));
    this.resize();
  }

  choose(row) {
    this.row = row;
    this.draw();
  }

  near(e) {
    const box = this.canvas.getBoundingClientRect();
    const away = ({ x, y }) => Math.hypot(this.x(x) - (e.clientX - box.left), this.y(y) - (e.clientY - box.top));
    const best = this.points.reduce(
      (nearest, point) => (!nearest || away(point) < away(nearest) ? point : nearest),
      null,
    );
    return best && away(best) < NEAR_PX ? best.row : null;
  }

  x(ms) {
    return SIDE + (ms / this.mostMs) * (this.width - SIDE - 8);
  }

  y(ms) {
    return this.height - SIDE - (ms / this.mostMs) * (this.height - SIDE - 8);
  }

  resize() {
    this.scale = devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    if (!this.width || !this.points) return;
    this.canvas.width = Math.round(this.width * this.scale);
    this.canvas.height = Math.round(this.height * this.scale);
    const style = getComputedStyle(this.canvas);
    this.colours = Object.fromEntries(
      ["panel", "ink", "muted", "line", "accent", "good"].map((name) => [
        name,
        style.getPropertyValue(`--${name}`).trim(),
      ]),
    );
    this.draw();
  }

  draw() {
    const { paint, colours } = this;
    if (!colours || !this.labels) return;
    paint.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    paint.fillStyle = colours.panel;
    paint.fillRect(0, 0, this.width, this.height);
    this.grid();
    for (const { x, y } of this.points) {
      paint.fillStyle = colours.good;
      paint.globalAlpha = 0.6;
      paint.beginPath();
      paint.arc(this.x(x), this.y(y), 4, 0, 2 * Math.PI);
      paint.fill();
      paint.globalAlpha = 1;
    }
    const at = this.points.find(({ row }) => row === this.row);
    if (!at) return;
    paint.fillStyle = colours.accent;
    paint.beginPath();
    paint.arc(this.x(at.x), this.y(at.y), 6, 0, 2 * Math.PI);
    paint.fill();
    paint.font = `600 12px ${FONT}`;
    paint.fillStyle = colours.ink;
    const isRight = this.x(at.x) > this.width / 2;
    paint.textAlign = isRight ? "right" : "left";
    paint.fillText(at.text, this.x(at.x) + (isRight ? -10 : 10), this.y(at.y) - 8);
  }

  grid() {
    const { paint, colours } = this;
    const step = STEPS_MS.find((ms) => this.mostMs / ms <= 5) ?? STEPS_MS.at(-1);
    paint.font = `11px ${FONT}`;
    paint.strokeStyle = colours.line;
    paint.fillStyle = colours.muted;
    paint.textBaseline = "middle";
    for (let ms = 0; ms <= this.mostMs; ms += step) {
      const [x, y] = [Math.round(this.x(ms)) + 0.5, Math.round(this.y(ms)) + 0.5];
      paint.beginPath();
      paint.moveTo(x, this.y(0));
      paint.lineTo(x, this.y(this.mostMs));
      paint.moveTo(this.x(0), y);
      paint.lineTo(this.x(this.mostMs), y);
      paint.stroke();
      paint.textAlign = "center";
      paint.fillText(String(ms), x, this.height - SIDE + 12);
      paint.textAlign = "right";
      if (ms) paint.fillText(String(ms), SIDE - 6, y);
    }
    paint.strokeStyle = colours.muted;
    paint.beginPath();
    paint.moveTo(this.x(0), this.y(0));
    paint.lineTo(this.x(this.mostMs), this.y(this.mostMs));
    paint.stroke();
    paint.textAlign = "right";
    paint.fillText(`${this.labels[0]} (ms)`, this.width - 8, this.height - 9);
    paint.textAlign = "left";
    paint.fillText(`${this.labels[1]} (ms)`, SIDE + 6, 16);
  }
}
