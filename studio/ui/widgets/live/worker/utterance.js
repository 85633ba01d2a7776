// Client-side state of an utterance: text, words, samples, gaps, and latency figures.

import { now } from "../../wire/packet.js";
import { TimedText } from "../../wire/timed_text.js";
import { spokenWpm, typedWpm } from "./pacing.js";

const STORED_S = 600; // of samples stored for replay
const LEVEL_WINDOW_S = 0.005;
const AUDIBLE_DB = -56; // 30 dB below the nominal active speech level of -26 dBFS
const SAME_TIME_MS = 30;
const NEAR_S = 0.03;
const PACED_MS = 400; // of sound, before the real-time factor is known
const STALL_REASONS = ["compute", "network"];

export class Utterance {
  constructor(id, source, rateHz) {
    this.id = id;
    this.source = source;
    this.rateHz = rateHz;
    this.mode = "keyboard";
    this.base = null; // start of the text in the field; null: not in the field
    this.settings = null;
    this.byPhrase = false;
    this.spectrum = null;
    this.take = this.samples = 0;
    this.ended = this.ending = false;
    this.typed = new TimedText();
    this.words = [];
    this.sentText = "";
    this.seams = 0;
    this.pcm = [];
    this.storedSamples = 0;
    this.gaps = []; // in playback: {sample, frames, reason}
    this.serverWaits = [];
    this.isKnown = false; // the server has responded
    this.isPasted = false; // some of the text was pasted
    this.closing = null; // the last message that can commit a word: {tMs, cause}
    this.audible = -1;
    this.first = { keyMs: 0, cause: "", wordMs: 0, committedMs: 0, packetMs: 0, audibleMs: 0 };
    this.pace = { lastMs: 0, wallMs: 0, audioMs: 0 };
    this.computeMs = null;
    this.playedSample = 0;
    this.draftSample = 0; // playedSample of the last draft of the recording
  }

  /** Note a text before it is sent. */
  noteSent(tMs, text) {
    if (/\s/.test(text)) this.closing = { tMs, cause: "key" };
  }

  /** Note a flush or the end, which commits a word unless a key did so at the same time. */
  noteClosing(tMs, cause) {
    if (this.closing && tMs - this.closing.tMs < SAME_TIME_MS) return;
    this.closing = { tMs, cause };
  }

  /** Handle an event of the server. */
  event(e) {
    EVENTS[e.type]?.(this, e);
  }

  /** Add samples; returns the first audible sample if it is among them, else -1. */
  packet(p) {
    const at = now();
    this.pcm.push({ first: p.first, data: p.pcm.slice() });
    this.samples = p.first + p.pcm.length;
    this.storedSamples += p.pcm.length;
    while (this.storedSamples > STORED_S * this.rateHz) this.storedSamples -= this.pcm.shift().data.length;
    this.first.packetMs ||= at;
    if (this.pace.lastMs) {
      this.pace.wallMs += Math.max(0, at - this.pace.lastMs);
      this.pace.audioMs += (p.pcm.length * 1000) / this.rateHz;
    }
    this.pace.lastMs = at;
    if (this.audible >= 0) return -1;
    this.audible = firstAudible(p, Math.round(LEVEL_WINDOW_S * this.rateHz));
    return this.audible;
  }

  /** Drop samples from `sample` on, after a revision. */
  cut(sample) {
    while (this.pcm.length && this.pcm.at(-1).first >= sample) this.storedSamples -= this.pcm.pop().data.length;
    const last = this.pcm.at(-1);
    if (last && last.first + last.data.length > sample) last.data = last.data.slice(0, sample - last.first);
    this.samples = Math.min(this.samples, sample);
    this.gaps = this.gaps.filter((gap) => gap.sample <= sample);
    this.spectrum?.cut(this.samples, this.pcm.at(-1)?.data ?? new Int16Array(0));
  }

  /** Add a playback gap of `frames` before `sample`, with its reason. */
  gap(sample, frames) {
    const gap = { sample, frames, reason: "network" };
    this.gaps.push(gap);
    this.explain(gap);
    return gap;
  }

  /** The reason of a gap is that of the server's wait at the same sample; without one, it is the network. */
  explain(gap) {
    const near = this.serverWaits.filter(
      (w) => Math.abs(w.sample - gap.sample) <= this.rateHz * NEAR_S && w.reason !== "credit",
    );
    near.sort((a, b) => b.ms - a.ms);
    if (near.length) gap.reason = near[0].reason;
  }

  waits(...reasons) {
    const chosen = this.gaps.filter((g) => reasons.includes(g.reason));
    return {
      count: chosen.length,
      ms: Math.round(chosen.reduce((sum, g) => sum + (g.frames * 1000) / this.rateHz, 0)),
    };
  }

  /** The part of the text as sent whose words have all their samples; code points. */
  get spokenChars() {
    const cut = this.words.find((word) => !(word?.endSample <= this.samples));
    return cut ? cut.from : (this.words.at(-1)?.to ?? 0);
  }

  /** Wall time of received speech without waits, over its duration; NaN for too little speech. */
  get slowness() {
    return this.pace.audioMs > PACED_MS ? this.pace.wallMs / this.pace.audioMs : NaN;
  }

  /** The figures shown on the page, in milliseconds except `rtf`. */
  figures() {
    const f = this.first;
    const credit = this.serverWaits.filter((w) => w.reason === "credit");
    const ready = f.keyMs > 0 && f.audibleMs > 0;
    const serverMs = f.packetMs - f.committedMs;
    const audioMs = (this.samples * 1000) / this.rateHz;
    let rtf = Number.isNaN(this.slowness) ? null : this.slowness;
    if (this.computeMs !== null && audioMs > 0) rtf = this.computeMs / audioMs;
    return {
      id: this.id,
      first_audio_ms: ready ? f.audibleMs - f.keyMs : null,
      first_audio_cause: f.cause,
      server_ms: ready && serverMs >= 1 ? serverMs : null, // a busy page takes both messages at once
      from_first_word_ms: f.audibleMs > 0 && f.wordMs > 0 ? f.audibleMs - f.wordMs : null,
      rtf,
      audible_at_ms: f.audibleMs || null,
      pasted: this.isPasted,
      typed_wpm: this.isPasted ? null : typedWpm(this.words),
      spoken_wpm: spokenWpm(this.words, this.rateHz),
      rtf_final: this.computeMs !== null,
      text: this.waits("text"),
      compute: this.waits("compute"),
      network: this.waits("network"),
      stalls: this.waits(...STALL_REASONS),
      credit: { count: credit.length, ms: Math.round(credit.reduce((sum, w) => sum + w.ms, 0)) },
      audio_ms: audioMs,
      audible_ms: ready ? (this.audible * 1000) / this.rateHz : null, // initial silence of the speech
    };
  }
}

/** Event handlers. */
const EVENTS = {
  text(u, e) {
    u.textMs = now();
    const chars = Array.from(u.sentText);
    u.sentText = e.char_start < chars.length ? chars.slice(0, e.char_start).join("") + e.text : u.sentText + e.text;
  },
  committed(u, e) {
    const at = now();
    const key = u.closing ?? { tMs: at, cause: "" };
    // From the time of the text event: the engine may process its input later.
    const { word, char_start: from, char_end: to } = e;
    u.words[e.i] = { word, from, to, keyMs: key.tMs, cause: key.cause, committedMs: u.textMs ?? at };
    u.first.wordMs ||= key.tMs;
  },
  flushed(u) {
    if (!u.ending) u.noteClosing(now(), "pause");
  },
  segment(u, e) {
    u.pace.lastMs = now(); // within a segment the only wait is for credit
    if (u.seams++ > 0) return;
    const completing = u.words[Math.max(...e.seen, ...e.words)];
    if (!completing) return;
    // A flush can trigger words that were committed long before it.
    const flush = u.closing && u.closing.cause !== "key" && u.closing.tMs > completing.keyMs ? u.closing : null;
    u.first.keyMs = flush ? flush.tMs : completing.keyMs;
    u.first.cause = flush ? flush.cause : completing.cause;
    u.first.committedMs = flush ? flush.tMs : completing.committedMs;
  },
  eos(u) {
    u.pace.lastMs = 0;
  },
  word_start(u, e) {
    if (u.words[e.i]) u.words[e.i].sample = e.sample;
  },
  word_end(u, e) {
    if (u.words[e.i]) u.words[e.i].endSample = e.sample;
  },
  wait(u, e) {
    u.serverWaits.push({ reason: e.reason, sample: e.sample, ms: e.duration_ms });
    if (e.reason === "credit" && u.pace.lastMs) u.pace.lastMs += e.duration_ms;
  },
  revised(u, e) {
    u.take = e.take;
    u.words.length = Math.min(u.words.length, e.words);
    for (const word of u.words) if (word?.endSample > e.from_sample) delete word.endSample;
    u.cut(e.from_sample);
  },
  ended(u, e) {
    u.ended = true;
    u.computeMs = e.compute_ms > 0 ? e.compute_ms : null;
  },
  failed(u) {
    u.ended = true;
  },
};

function firstAudible(p, window) {
  for (let from = 0; from < p.pcm.length; from += window) {
    const to = Math.min(p.pcm.length, from + window);
    let sum = 0;
    for (let k = from; k < to; k++) sum += (p.pcm[k] / 32768) ** 2;
    if (10 * Math.log10(sum / (to - from) + 1e-12) > AUDIBLE_DB) return p.first + from;
  }
  return -1;
}
