// One utterance as its listener sees it: text, words, samples, waits, and what the latency consisted of.

import { spokenWpm, typedWpm } from "./pacing.js";
import { Typed } from "../../wire/typed.js";
import { now } from "../../wire/packet.js";

const KEPT_S = 600; // samples kept for "as heard": ten minutes
const LEVEL_WINDOW_S = 0.005;
const AUDIBLE_DB = -56; // 30 dB under the nominal active speech level of -26 dBFS
const ONE_MOMENT_MS = 30;
const NEAR_S = 0.03;
const PACED_MS = 400; // of sound, before its pace is told
const STALL_REASONS = ["compute", "network"];

export class Utterance {
  constructor(id, source, rateHz) {
    Object.assign(this, { id, source, rateHz, take: 0, samples: 0, ended: false, ending: false });
    this.typed = new Typed();
    this.words = [];
    this.sentText = "";
    this.seams = 0;
    this.pcm = [];
    this.kept = 0;
    this.gaps = []; // heard: {sample, frames, reason}
    this.serverWaits = [];
    this.isKnown = false; // the server has answered
    this.isPasted = false; // it did not come word by word
    this.closing = null; // the last thing sent that can commit a word: {tMs, cause}
    this.audible = -1;
    this.first = { keyMs: 0, cause: "", wordMs: 0, committedMs: 0, packetMs: 0, audibleMs: 0 };
    this.pace = { lastMs: 0, wallMs: 0, audioMs: 0 };
    this.computeMs = null;
    this.heard = [];
    this.urls = null;
    this.playedSample = 0;
  }

  /** Note what is sent, before it is sent. */
  sent(tMs, text) {
    if (/\s/.test(text)) this.closing = { tMs, cause: "key" };
  }

  /** A flush or the end commits what a key has not: unless a key did so at the same moment. */
  closes(tMs, cause) {
    if (this.closing && tMs - this.closing.tMs < ONE_MOMENT_MS) return;
    this.closing = { tMs, cause };
  }

  /** Take in an event of the server's. */
  event(e) {
    const take = EVENTS[e.type];
    if (take) take(this, e);
  }

  /** Take in samples; answers the first audible one when these hold it, else -1. */
  packet(p) {
    const at = now();
    this.pcm.push({ first: p.first, data: p.pcm.slice() });
    this.samples = p.first + p.pcm.length;
    this.kept += p.pcm.length;
    while (this.kept > KEPT_S * this.rateHz) this.kept -= this.pcm.shift().data.length;
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

  /** The server took everything from a sample back. */
  cut(sample) {
    while (this.pcm.length && this.pcm.at(-1).first >= sample) this.kept -= this.pcm.pop().data.length;
    const last = this.pcm.at(-1);
    if (last && last.first + last.data.length > sample) last.data = last.data.slice(0, sample - last.first);
    this.samples = Math.min(this.samples, sample);
    this.gaps = this.gaps.filter((gap) => gap.sample <= sample);
    this.spectrum?.cut(this.samples, this.pcm.at(-1)?.data ?? new Int16Array(0));
  }

  /** The player resumed at `sample` after a silence of `frames`: say why it had to be silent. */
  gap(sample, frames) {
    const gap = { sample, frames, reason: "network" };
    this.gaps.push(gap);
    this.explain(gap);
    return gap;
  }

  /** A gap is the server's wait at the same sample; where the server had none, the samples were long on their way. */
  explain(gap) {
    const near = this.serverWaits.filter((w) => Math.abs(w.sample - gap.sample) <= this.rateHz * NEAR_S && w.reason !== "credit");
    near.sort((a, b) => b.ms - a.ms);
    if (near.length) gap.reason = near[0].reason;
  }

  waits(...reasons) {
    const chosen = this.gaps.filter((g) => reasons.includes(g.reason));
    return { count: chosen.length, ms: Math.round(chosen.reduce((sum, g) => sum + (g.frames * 1000) / this.rateHz, 0)) };
  }

  /** How much of the text as sent has its sound here, word by word; code points. */
  get saidChars() {
    const cut = this.words.find((word) => !(word?.endSample <= this.samples));
    return cut ? cut.from : (this.words.at(-1)?.to ?? 0);
  }

  /** Time in which speech came while the voice waited for nobody, over the time that it lasts; NaN while too little has come. */
  get slowness() {
    return this.pace.audioMs > PACED_MS ? this.pace.wallMs / this.pace.audioMs : NaN;
  }

  /** The figures shown on the page, milliseconds but for `rtf`. */
  figures() {
    const f = this.first;
    const credit = this.serverWaits.filter((w) => w.reason === "credit");
    const ready = f.keyMs > 0 && f.audibleMs > 0;
    const audioMs = (this.samples * 1000) / this.rateHz;
    let rtf = Number.isNaN(this.slowness) ? null : this.slowness;
    if (this.computeMs !== null && audioMs > 0) rtf = this.computeMs / audioMs;
    return {
      id: this.id,
      first_audio_ms: ready ? f.audibleMs - f.keyMs : null,
      first_audio_cause: f.cause,
      server_ms: ready ? f.packetMs - f.committedMs : null,
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
      audible_ms: ready ? (this.audible * 1000) / this.rateHz : null, // silence that the voice itself began with
    };
  }
}

/** What each event of the server's changes. */
const EVENTS = {
  text(u, e) {
    u.textMs = now();
    const chars = Array.from(u.sentText);
    u.sentText = e.char_start < chars.length ? chars.slice(0, e.char_start).join("") + e.text : u.sentText + e.text;
  },
  committed(u, e) {
    const at = now();
    const key = u.closing ?? { tMs: at, cause: "" };
    // The text that committed it came before: an engine may read its inbox later.
    const { word, char_start: from, char_end: to } = e;
    u.words[e.i] = { word, from, to, keyMs: key.tMs, cause: key.cause, committedMs: u.textMs ?? at };
    u.first.wordMs ||= key.tMs;
  },
  flushed(u) {
    if (!u.ending) u.closes(now(), "pause");
  },
  segment(u, e) {
    u.pace.lastMs = now(); // within a segment the voice waits for nothing but its listener
    if (u.seams++ > 0) return;
    const completing = u.words[Math.max(...e.seen, ...e.words)];
    if (!completing) return;
    // A flush lets words speak that were committed long before it.
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
  cancelled(u, e) {
    u.heard = e.heard;
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
