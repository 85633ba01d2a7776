// Text that arrives by the clock: a simulated language model, or recorded arrivals pushed the old way.

const TICK_MS = 8;

export class Schedule {
  /** `arrivals` are [{tMs, text}] from the start on; `send(text)` each in turn, then `done()`. */
  constructor(arrivals, { send, done, tick }) {
    this.arrivals = arrivals;
    this.next = 0;
    this.began = performance.now();
    this.step = () => {
      const elapsed = performance.now() - this.began;
      while (this.next < arrivals.length && arrivals[this.next].tMs <= elapsed) send(arrivals[this.next++].text);
      tick?.(elapsed, this.next);
      if (this.next === arrivals.length) {
        this.timer = null;
        done();
      } else {
        const wait = tick ? 60 : arrivals[this.next].tMs - elapsed;
        this.timer = setTimeout(this.step, Math.max(TICK_MS, Math.min(wait, arrivals[this.next].tMs - elapsed)));
      }
    };
    this.timer = setTimeout(this.step, 0);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
  }
}
