// Playhead and overview bar.

/** Move the line `head` to `atMs`, and the overview mark `shown` to the visible range. */
export function placePlayhead(axis, atMs, head, shown) {
  const x = axis.x(atMs);
  head.hidden = !(x >= 0 && x <= axis.width);
  head.style.transform = `translateX(${x}px)`;
  const whole = axis.endMs - axis.startMs;
  shown.style.insetInlineStart = `${(100 * (axis.leftMs - axis.startMs)) / whole}%`;
  shown.style.inlineSize = `${(100 * axis.spanMs) / whole}%`;
}
