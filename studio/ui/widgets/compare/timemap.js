// Where an utterance's own time lies on the axis of all, and back (studio/inspection/comparison/common_axis.py). All in ms.

export class TimeMap {
  /** `axis` and `own`: the same places on both, in seconds, as the server packs them; neither ever falls. */
  constructor({ axis, own }) {
    this.axisMs = axis.map((s) => 1000 * s);
    this.ownMs = own.map((s) => 1000 * s);
  }

  own(ms) {
    return through(ms, this.axisMs, this.ownMs);
  }

  axis(ms) {
    return through(ms, this.ownMs, this.axisMs);
  }

  get endMs() {
    return this.axisMs.at(-1);
  }
}

/** Straight between knots; where two lie at one place the later one counts; beyond the ends at the utterance's own pace. */
function through(at, known, wanted) {
  const last = known.length - 1;
  if (at < known[0]) return wanted[0] + at - known[0];
  if (at >= known[last]) return wanted[last] + at - known[last];
  let [low, high] = [0, last]; // known[low] <= at < known[high]
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (known[middle] <= at) low = middle;
    else high = middle;
  }
  const share = (at - known[low]) / (known[high] - known[low]);
  return wanted[low] + share * (wanted[high] - wanted[low]);
}
