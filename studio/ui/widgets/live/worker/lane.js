// One lane of a race: an utterance and its player.

import { t } from "../../page/translate.js";
import { Feed } from "../../sound/feed.js";
import { now } from "../../wire/packet.js";
import { Utterance } from "./utterance.js";

export const PEAK_SAMPLES = 120;
const CREDIT_MS = 2000;
const FORWARDED = ["committed", "word_start", "word_end"];

export class Lane {
  /** `on`: send(message) to the server, post(message) to the page, changed(). */
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
    this.on.send({ type: "open", utterance: this.number, source: "stream", credit_ms: CREDIT_MS, ...settings });
  }

  text(text) {
    this.u.noteSent(now(), text);
    this.on.send({ type: "text", utterance: this.number, text });
  }

  /** Send a sentence and flush, so that it does not wait for the next one. */
  sentence(text) {
    this.text(`${text.trim()} `);
    this.on.send({ type: "flush", utterance: this.number });
  }

  end() {
    this.on.send({ type: "end", utterance: this.number });
  }

  event(e) {
    this.u.event(e);
    if (FORWARDED.includes(e.type)) this.on.post({ what: "event", lane: this.number, event: e });
    if (e.type === "ready") this.isReady = true;
    if (e.type === "ended") this.feed.final();
    this.on.changed();
  }

  packet(p) {
    const mark = this.u.packet(p);
    this.on.post({ what: "peaks", lane: this.number, first: p.first, peaks: peaks(p.pcm) });
    this.feed.packet(p, mark);
  }

  /** Play the sound of another lane, after this lane's own. */
  playSound(other) {
    this.isSecond = true;
    this.isOver = false;
    const { u } = other;
    this.feed.replay({
      pcm: u.pcm,
      gaps: [],
      get ended() {
        return u.ended;
      },
    });
  }

  // --- player callbacks -------------------------------------------------------------------------

  onBegin() {}

  onReport(m) {
    if (this.isSecond || this.u.ended) return;
    const { u } = this;
    u.playedSample = m.sample;
    const buffered_ms = (m.buffered * 1000) / u.rateHz;
    this.on.send({ type: "played", utterance: this.number, sample: m.sample, buffered_ms, underruns: m.underruns });
  }

  onResumed(sample, frames) {
    if (!this.isSecond) this.u.gap(sample, frames);
  }

  onAudible(m) {
    if (this.isSecond) return;
    this.u.first.audibleMs = m.date + (now() - Date.now());
    this.on.post({ what: "heard", lane: this.number, ms: this.u.first.audibleMs, sample: this.u.audible });
    this.on.changed();
  }

  onDone() {
    this.isOver = true;
    this.on.changed();
  }

  onStopped() {}

  onFault(m) {
    this.on.post({
      what: "failed",
      message: t("The player received samples from {first} on; it expected {expected}."),
      values: { first: m.first, expected: m.expected },
    });
  }
}

/** Peak level of each PEAK_SAMPLES samples, 0 to 1. */
function peaks(pcm) {
  const out = new Float32Array(Math.ceil(pcm.length / PEAK_SAMPLES));
  for (let k = 0; k < pcm.length; k++) {
    const index = Math.floor(k / PEAK_SAMPLES);
    out[index] = Math.max(out[index], Math.abs(pcm[k]) / 32768);
  }
  return out;
}
