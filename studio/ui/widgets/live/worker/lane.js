// One lane of a race: an utterance of its own, and the player that hears it.

import { Feed } from "../../sound/feed.js";
import { Utterance } from "./utterance.js";
import { now } from "../../wire/packet.js";

export const PEAK_SAMPLES = 120;
const CREDIT_MS = 2000;
const TOLD = { committed: 1, word_start: 1, word_end: 1 };

export class Lane {
  /** `on` has say(message), tell(message), changed(). */
  constructor(number, { port, rateHz }, on) {
    this.number = number;
    this.on = on;
    this.feed = new Feed(this);
    this.feed.connect(port, rateHz);
    this.u = new Utterance(number, "stream", rateHz);
    this.isReady = this.isOver = this.isSecond = false;
  }

  open(settings) {
    this.feed.begin();
    this.on.say({ type: "open", utterance: this.number, source: "stream", credit_ms: CREDIT_MS, ...settings });
  }

  text(text) {
    this.u.sent(now(), text);
    this.on.say({ type: "text", utterance: this.number, text });
  }

  /** A sentence is said whole: it does not wait for the next one. */
  sentence(text) {
    this.text(`${text.trim()} `);
    this.on.say({ type: "flush", utterance: this.number });
  }

  end() {
    this.on.say({ type: "end", utterance: this.number });
  }

  event(e) {
    this.u.event(e);
    if (e.type in TOLD) this.on.tell({ what: "event", lane: this.number, event: e });
    if (e.type === "ready") this.isReady = true;
    if (e.type === "ended") this.feed.final();
    this.on.changed();
  }

  packet(p) {
    const mark = this.u.packet(p);
    this.on.tell({ what: "peaks", lane: this.number, first: p.first, peaks: peaks(p.pcm) });
    this.feed.packet(p, mark);
  }

  /** The sound of another lane, after this one's own. */
  say(other) {
    this.isSecond = true;
    this.isOver = false;
    const { u } = other;
    this.feed.replay({ pcm: u.pcm, gaps: [], get ended() { return u.ended; } });
  }

  // --- what the player says ---------------------------------------------------------------------

  begun() {}

  report(m) {
    if (this.isSecond || this.u.ended) return;
    const { u } = this;
    u.playedSample = m.sample;
    const buffered_ms = (m.buffered * 1000) / u.rateHz;
    this.on.say({ type: "played", utterance: this.number, sample: m.sample, buffered_ms, underruns: m.underruns });
  }

  resumed(sample, frames) {
    if (!this.isSecond) this.u.gap(sample, frames);
  }

  audible(m) {
    if (this.isSecond) return;
    this.u.first.audibleMs = m.date + (now() - Date.now());
    this.on.tell({ what: "heard", lane: this.number, ms: this.u.first.audibleMs, sample: this.u.audible });
    this.on.changed();
  }

  done() {
    this.isOver = true;
    this.on.changed();
  }

  stopped() {}

  fault(m) {
    this.on.tell({ what: "failed", message: `The player got samples from ${m.first} on, but needed ${m.expected}.` });
  }
}

/** How loud each stretch is, 0 to 1. */
function peaks(pcm) {
  const out = new Float32Array(Math.ceil(pcm.length / PEAK_SAMPLES));
  for (let k = 0; k < pcm.length; k++) {
    const place = Math.floor(k / PEAK_SAMPLES);
    out[place] = Math.max(out[place], Math.abs(pcm[k]) / 32768);
  }
  return out;
}
