// Where the sound is now, and which part of the whole is shown.

/** Puts the line `head` at a place of an axis, and its bar's mark `shown` over what the axis shows. */
export function placePlayhead(axis, atMs, head, shown) {
  const x = axis.x(atMs);
  head.hidden = !(x >= 0 && x <= axis.width);
  head.style.transform = `translateX(${x}px)`;
  const whole = axis.endMs - axis.startMs;
  shown.style.insetInlineStart = `${(100 * (axis.leftMs - axis.startMs)) / whole}%`;
  shown.style.inlineSize = `${(100 * axis.spanMs) / whole}%`;
}
