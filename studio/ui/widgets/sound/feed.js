// The Worker's end of the player: what goes into the ring, and when.

const REPLAY_AHEAD_S = 2;
const FIRST_PREBUFFER_S = 0.03; // a frame and a little: a server at twice real time or more has sent the next by then
const REBUFFER_S = 0.06; // after a wait nobody counts the milliseconds, and a second gap at once would be heard
const LONGEST_HOLD_S = 0.12;
const MORE_S = 0.02;
const SLOW_HOLD_S = 0.5; // where the computer cannot keep up: fewer and longer pauses
const LONGEST_WITHHELD_S = 1.2; // well within the credit, or nothing more would come
const LONGEST_PHRASE_S = 4;

export class Feed {
  /** `on` has report(state), resumed(sample, gap), audible(state), done(state), stopped(state), begun(play), fault(message). */
  constructor(on) {
    this.on = on;
    this.port = null;
    this.queue = [];
    this.play = 0;
    this.replaying = null;
    this.prebufferS = FIRST_PREBUFFER_S;
    this.rebufferS = REBUFFER_S;
    this.read = 0;
    this.isWhole = this.isByPhrase = false;
    this.withheld = [];
  }

  connect(port, rateHz) {
    this.port = port;
    this.rateHz = rateHz;
    port.onmessage = ({ data }) => this.receive(data);
    for (const [message, transfer] of this.queue.splice(0)) port.postMessage(message, transfer);
  }

  post(message, transfer = []) {
    const whole = { ...message, play: this.play };
    if (this.port) this.port.postMessage(whole, transfer);
    else this.queue.push([whole, transfer]);
  }

  begin(gaps = []) {
    this.play++;
    this.read = 0;
    this.replaying = null;
    this.queue = this.withheld = [];
    this.post({ type: "begin", gaps, prebuffer: this.samples(this.prebufferS), rebuffer: this.samples(this.rebufferS) });
    this.on.begun(this.play);
  }

  packet(p, mark) {
    if (!this.isWhole && !this.isByPhrase) return this.pass(p, mark);
    this.withheld.push([p, mark]);
    const first = this.withheld[0][0].first;
    const longest = this.samples(this.isByPhrase ? LONGEST_PHRASE_S : LONGEST_WITHHELD_S);
    if (p.first + p.pcm.length - first > longest) this.release();
    return undefined;
  }

  /** Whether what comes is held back until it is released: by phrases, with the credit for that. */
  keepPhrases(isByPhrase) {
    this.isByPhrase = isByPhrase;
    if (!isByPhrase && !this.isWhole) this.release();
  }

  /** Whether words are held back until they are complete, so that pauses fall between them. */
  keepWhole(isWhole) {
    this.isWhole = isWhole;
    if (!isWhole && !this.isByPhrase) this.release();
    this.prebufferS = isWhole ? SLOW_HOLD_S : FIRST_PREBUFFER_S;
    this.rebufferS = isWhole ? SLOW_HOLD_S : REBUFFER_S;
    this.post({ type: "rebuffer", samples: this.samples(this.rebufferS) });
  }

  /** What was held back may be heard up to a sample. */
  release(until = Infinity) {
    while (this.withheld.length && this.withheld[0][0].first < until) this.pass(...this.withheld.shift());
  }

  pass(p, mark) {
    this.post({ type: "pcm", first: p.first, buffer: p.buffer, offset: p.offset, mark }, [p.buffer]);
  }

  /** How many samples of the voice go to each one heard, from its next rest on. */
  setRate(rate) {
    this.post({ type: "rate", rate });
  }

  final() {
    this.release();
    this.post({ type: "final" });
  }

  cut(sample) {
    this.release(sample); // the player drops what goes beyond
    this.withheld = [];
    this.post({ type: "cut", sample });
  }

  /** Fade out and stop; `atOnce` where the context stands still and no fade could be heard. */
  stop(atOnce) {
    this.replaying = null;
    this.withheld = [];
    this.post({ type: "stop", atOnce });
  }

  /** Play kept samples again, with the waits that were heard; more may still come where the utterance goes on. */
  replay(utterance) {
    const from = utterance.pcm[0]?.first ?? 0;
    this.begin(utterance.gaps.filter((g) => g.sample > from).map((g) => [g.sample - from, g.frames]));
    this.replaying = { utterance, next: 0, fed: 0, from };
    this.refill();
    return from;
  }

  refill() {
    const r = this.replaying;
    if (!r) return;
    const { pcm, ended } = r.utterance;
    while (r.next < pcm.length && r.fed < this.read + REPLAY_AHEAD_S * this.rateHz) {
      const data = pcm[r.next++].data.slice();
      const first = r.fed;
      r.fed += data.length; // before the buffer is handed over and its length is gone
      this.post({ type: "pcm", first, buffer: data.buffer, offset: 0, mark: -1 }, [data.buffer]);
    }
    if (r.next === pcm.length && ended) {
      this.final();
      this.replaying = null;
    }
  }

  receive(m) {
    if (m.play !== this.play) return;
    if (m.sample !== undefined) this.read = m.sample;
    if (m.type === "turn" && m.playing && m.gap > 0) this.on.resumed(m.sample, m.gap);
    else if (m.type === "report") this.on.report(m);
    else if (m.type in { audible: 1, done: 1, stopped: 1, fault: 1 }) this.on[m.type](m);
    this.refill();
  }

  /** An underrun that was nobody's wait for text: hold a little more back before the next start. */
  holdMore() {
    if (this.isWhole) return;
    this.prebufferS = Math.min(LONGEST_HOLD_S, this.prebufferS + MORE_S);
    this.rebufferS = Math.min(LONGEST_HOLD_S, this.rebufferS + MORE_S);
    this.post({ type: "rebuffer", samples: this.samples(this.rebufferS) });
  }

  samples(seconds) {
    return Math.round(seconds * (this.rateHz ?? 24000));
  }
}
