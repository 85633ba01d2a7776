// Feeds samples to the player's ring buffer, from the Worker.

const REPLAY_AHEAD_S = 2;
const FIRST_PREBUFFER_S = 0.03; // just over a frame: a server at twice real time has sent the next one by then
const REBUFFER_S = 0.06; // after a wait latency matters less, and a second gap would be audible
const MAX_PREBUFFER_S = 0.12;
const PREBUFFER_STEP_S = 0.02;
const SLOW_HOLD_S = 0.5; // for a server slower than real time: fewer, longer pauses
const MAX_WORD_HOLD_S = 1.2; // well below the credit, or the server would stop sending
const MAX_PHRASE_HOLD_S = 4;

const CALLBACKS = { report: "onReport", audible: "onAudible", done: "onDone", stopped: "onStopped", fault: "onFault" };

export class Feed {
  /**
   * `on`: onReport(state), onResumed(sample, gap), onAudible(state), onDone(state), onStopped(state), onBegin(play),
   * onFault(message).
   */
  constructor(on) {
    this.on = on;
    this.port = null;
    this.queue = [];
    this.play = 0;
    this.replaying = null;
    this.prebufferS = FIRST_PREBUFFER_S;
    this.rebufferS = REBUFFER_S;
    this.read = 0;
    this.holdsWords = this.holdsPhrases = false;
    this.heldPackets = [];
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
    this.queue = this.heldPackets = [];
    this.post({
      type: "begin",
      gaps,
      prebuffer: this.samples(this.prebufferS),
      rebuffer: this.samples(this.rebufferS),
    });
    this.on.onBegin(this.play);
  }

  packet(p, mark) {
    if (!this.holdsWords && !this.holdsPhrases) return this.deliver(p, mark);
    this.heldPackets.push([p, mark]);
    const first = this.heldPackets[0][0].first;
    const longest = this.samples(this.holdsPhrases ? MAX_PHRASE_HOLD_S : MAX_WORD_HOLD_S);
    if (p.first + p.pcm.length - first > longest) this.release();
    return undefined;
  }

  /** Whether packets are held until release(), a phrase at a time; the utterance needs credit for a phrase. */
  holdPhrases(isOn) {
    this.holdsPhrases = isOn;
    if (!isOn && !this.holdsWords) this.release();
  }

  /** Whether words are held until they are complete, so that pauses fall between words. */
  holdWords(isOn) {
    this.holdsWords = isOn;
    if (!isOn && !this.holdsPhrases) this.release();
    this.prebufferS = isOn ? SLOW_HOLD_S : FIRST_PREBUFFER_S;
    this.rebufferS = isOn ? SLOW_HOLD_S : REBUFFER_S;
    this.post({ type: "rebuffer", samples: this.samples(this.rebufferS) });
  }

  /** Deliver held packets that begin before a sample. */
  release(until = Infinity) {
    while (this.heldPackets.length && this.heldPackets[0][0].first < until) {
      const [p, mark] = this.heldPackets.shift();
      this.deliver(p, mark);
    }
  }

  deliver(p, mark) {
    this.post({ type: "pcm", first: p.first, buffer: p.buffer, offset: p.offset, mark }, [p.buffer]);
  }

  /** Voice samples per output sample, from the player's next pause on. */
  setRate(rate) {
    this.post({ type: "rate", rate });
  }

  final() {
    this.release();
    this.post({ type: "final" });
  }

  cut(sample) {
    this.release(sample); // the player drops samples beyond it
    this.heldPackets = [];
    this.post({ type: "cut", sample });
  }

  /** Fade out and stop; `atOnce` for a suspended context, which cannot play a fade. */
  stop(atOnce) {
    this.replaying = null;
    this.heldPackets = [];
    this.post({ type: "stop", atOnce });
  }

  /** Play stored samples again with the gaps of the first playback; an utterance in progress may add samples. */
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
      r.fed += data.length; // before the transfer detaches the buffer
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
    if (m.type === "turn" && m.playing && m.gap > 0) this.on.onResumed(m.sample, m.gap);
    else if (m.type in CALLBACKS) this.on[CALLBACKS[m.type]](m);
    this.refill();
  }

  /** After an underrun that was not a wait for text: buffer more before the next start. */
  increasePrebuffer() {
    if (this.holdsWords) return;
    this.prebufferS = Math.min(MAX_PREBUFFER_S, this.prebufferS + PREBUFFER_STEP_S);
    this.rebufferS = Math.min(MAX_PREBUFFER_S, this.rebufferS + PREBUFFER_STEP_S);
    this.post({ type: "rebuffer", samples: this.samples(this.rebufferS) });
  }

  samples(seconds) {
    return Math.round(seconds * (this.rateHz ?? 24000));
  }
}
