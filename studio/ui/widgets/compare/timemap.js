// Maps an utterance's own time to the common axis and back, in ms (studio/inspection/comparison/common_axis.py).

export class TimeMap {
  /** `axis` and `own`: matching positions in seconds, both non-decreasing, as sent by the server. */
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

/** Linear between knots (the later of two equal knots counts); slope 1 beyond the ends. */
function through(at, known, target) {
  const last = known.length - 1;
  if (at < known[0]) return target[0] + at - known[0];
  if (at >= known[last]) return target[last] + at - known[last];
  let [low, high] = [0, last]; // known[low] <= at < known[high]
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (known[middle] <= at) low = middle;
    else high = middle;
  }
  const share = (at - known[low]) / (known[high] - known[low]);
  return target[low] + share * (target[high] - target[low]);
}
