// Sends text at given times.

const TICK_MS = 8;

export class Schedule {
  /**
   * @param arrivals [{tMs, text}], times from now on
   * @param callbacks send(text) for each, then done(); tick(elapsedMs) at every step
   */
  constructor(arrivals, { send, done, tick = null }) {
    this.arrivals = arrivals;
    this.next = 0;
    this.began = performance.now();
    this.step = () => {
      const elapsed = performance.now() - this.began;
      while (this.next < arrivals.length && arrivals[this.next].tMs <= elapsed) send(arrivals[this.next++].text);
      tick?.(elapsed);
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
