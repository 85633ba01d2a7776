// The union of the intervals of a sound that were played.

export class Spans {
  /** `intervals` is a list of [from, to] in seconds. */
  constructor(intervals = []) {
    this.list = [];
    for (const [from, to] of intervals) this.add(from, to);
  }

  add(from, to) {
    if (!(to > from)) return;
    const disjoint = this.list.filter(([a, b]) => b < from || a > to);
    for (const [a, b] of this.list) {
      if (b < from || a > to) continue;
      from = Math.min(from, a);
      to = Math.max(to, b);
    }
    this.list = [...disjoint, [from, to]].sort((one, other) => one[0] - other[0]);
  }

  get seconds() {
    return this.list.reduce((sum, [from, to]) => sum + to - from, 0);
  }
}
