// Ruler with grid lines, playhead and overview bar.

import { clock } from "./axis.js";

export const FONT = '"Segoe UI", Inter, Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif';

export function drawRuler(scene, { y, height }) {
  const { paint, axis, colours } = scene;
  const { times, digits } = axis.ticks();
  paint.font = `11px ${FONT}`;
  paint.textBaseline = "middle";
  paint.textAlign = "left";
  for (const ms of times) {
    const x = Math.round(axis.x(ms)) + 0.5;
    paint.strokeStyle = colours.line;
    paint.beginPath();
    paint.moveTo(x, y + height - 6);
    paint.lineTo(x, scene.height);
    paint.stroke();
    const text = `${clock(ms, digits)}${ms < 60000 ? " s" : ""}`;
    paint.fillStyle = colours.muted;
    if (x + 4 + paint.measureText(text).width <= axis.width) paint.fillText(text, x + 4, y + height / 2);
  }
}

/** Move the line `head` to `atMs`, and the overview mark `range` to the visible range. */
export function placePlayhead(axis, atMs, head, range) {
  const x = axis.x(atMs);
  head.hidden = !(x >= 0 && x <= axis.width);
  head.style.transform = `translateX(${x}px)`;
  const whole = axis.endMs - axis.startMs;
  range.style.insetInlineStart = `${(100 * (axis.leftMs - axis.startMs)) / whole}%`;
  range.style.inlineSize = `${(100 * axis.spanMs) / whole}%`;
}
