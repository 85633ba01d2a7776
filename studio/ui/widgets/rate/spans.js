// Which stretches of a sound have been played: hearing a second twice is still one second heard.

export class Spans {
  /** `kept` is a list of [from, to] in seconds. */
  constructor(kept = []) {
    this.list = [];
    for (const [from, to] of kept) this.add(from, to);
  }

  add(from, to) {
    if (!(to > from)) return;
    const apart = this.list.filter(([a, b]) => b < from || a > to);
    for (const [a, b] of this.list) {
      if (b < from || a > to) continue;
      from = Math.min(from, a);
      to = Math.max(to, b);
    }
    this.list = [...apart, [from, to]].sort((one, other) => one[0] - other[0]);
  }

  get seconds() {
    return this.list.reduce((sum, [from, to]) => sum + to - from, 0);
  }
}
