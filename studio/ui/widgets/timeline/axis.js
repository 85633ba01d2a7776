// Time axis: maps milliseconds of the trace's clock to CSS pixels.

import { decimal } from "../page/translate.js";

const BEFORE_PX = 58;
const AFTER_PX = 12;
const LEAST_MS = 20; // visible span at the deepest zoom
const STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 120000, 300000, 600000];
const TICK_PX = 84;

export class Axis {
  /** Content spans [firstMs, lastMs]; `width` in CSS pixels. */
  constructor(firstMs, lastMs, width) {
    this.firstMs = firstMs;
    this.lastMs = lastMs;
    this.beforePx = BEFORE_PX; // space for lane names
    this.resize(width);
    this.fit();
  }

  /** Add margins before and after the content: space for lane names, and a visible end. */
  resize(width) {
    this.width = width;
    const perPx = (this.lastMs - this.firstMs + 1) / Math.max(40, width - this.beforePx - AFTER_PX);
    this.startMs = this.firstMs - this.beforePx * perPx;
    this.endMs = this.lastMs + AFTER_PX * perPx;
  }

  get spanMs() {
    return this.rightMs - this.leftMs;
  }

  get pxPerMs() {
    return this.width / this.spanMs;
  }

  x(ms) {
    return (ms - this.leftMs) * this.pxPerMs;
  }

  ms(x) {
    return this.leftMs + x / this.pxPerMs;
  }

  fit() {
    this.leftMs = this.startMs;
    this.rightMs = this.endMs;
  }

  /** Show [leftMs, rightMs], clamped to the content. */
  show(leftMs, rightMs) {
    const whole = this.endMs - this.startMs;
    const span = Math.min(whole, Math.max(Math.min(LEAST_MS, whole), rightMs - leftMs));
    const left = Math.min(Math.max(leftMs, this.startMs), this.endMs - span);
    this.leftMs = left;
    this.rightMs = left + span;
  }

  /** Zoom by a factor (above 1: in) around `x`. */
  zoom(factor, x) {
    const at = this.ms(x);
    const span = this.spanMs / factor;
    const whole = this.endMs - this.startMs;
    const newSpan = Math.min(whole, Math.max(LEAST_MS, span));
    const left = at - (x / this.width) * newSpan;
    this.show(left, left + newSpan);
  }

  pan(ms) {
    this.show(this.leftMs + ms, this.rightMs + ms);
  }

  /** Times of the ruler's ticks, and their number of decimals. */
  ticks() {
    const step = STEPS_MS.find((ms) => ms * this.pxPerMs >= TICK_PX) ?? STEPS_MS.at(-1);
    const digits = step >= 1000 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3;
    const times = [];
    for (let ms = Math.ceil(this.leftMs / step) * step; ms <= this.rightMs; ms += step) times.push(ms);
    return { times, digits };
  }
}

/** Format seconds: 12.3, or 1:05 from one minute on. */
export function clock(ms, digits = 3) {
  const sign = ms < 0 ? "−" : "";
  const s = Math.abs(ms) / 1000;
  if (s < 60) return `${sign}${decimal(s, digits)}`;
  const minutes = Math.floor(s / 60);
  return `${sign}${minutes}:${decimal(s - 60 * minutes, digits).padStart(digits ? 3 + digits : 2, "0")}`;
}
