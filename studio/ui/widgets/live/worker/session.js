// The Worker's state: one socket, one utterance at a time, one player.

import { Feed } from "../../sound/feed.js";
import { Keyboard } from "./keyboard.js";
import { Outbox } from "./outbox.js";
import { Phrases, SMOOTH_CREDIT_MS, rateFor, typedWpm } from "./pacing.js";
import { keptOf, restOf } from "./rest.js";
import { Socket } from "../../wire/socket.js";
import { Spectrum } from "../../sound/spectrum.js";
import { saySample, sayOldWay, typeAsModel } from "./streams.js";
import { Utterance } from "./utterance.js";
import { now, parsePacket } from "../../wire/packet.js";

const CREDIT_MS = 2000;
const IDLE_END_MS = 30000; // a place is given back when nothing was typed for so long
const FIGURES_MS = 100;
const EXPLAIN_MS = 150; // the server's word for a wait may come after the sound
const TOO_SLOW = 1.05; // time in which speech is made, over the time it lasts
const FAST_ENOUGH = 0.85;
const JUDGED_MS = 1000; // of sound, before a server is called slow

export class Session {
  constructor(url, post) {
    this.post = post;
    this.outbox = new Outbox(post);
    this.keyboard = new Keyboard(this);
    this.phase = "idle"; // idle | open | ending | stopping | waiting | replay
    this.mode = "keyboard"; // keyboard | llm | old | sample
    this.current = this.last = this.live = null;
    this.rest = null; // says what is kept: cut off by a lost connection, or not begun before a race
    this.nextId = 1;
    this.settings = { voice: "", seed: 0, temperature: null, options: {} };
    this.hasSettings = false; // the page has seen the voices and chosen
    this.rateHz = 24000;
    this.endsNext = false; // the text that waits to be opened is complete
    this.latencyMs = this.replayFrom = 0;
    this.isSmooth = false; // speak by phrases to who types slowly
    this.phrases = new Phrases();
    this.isSlow = false; // the server cannot keep up with a listener
    this.feed = new Feed(this);
    this.socket = new Socket(url, this);
    setInterval(() => this.beat(), FIGURES_MS);
  }

  // --- what the server says ---------------------------------------------------------------------

  state(state, retryMs) {
    this.post({ type: "socket", state, retryMs });
    if (state === "lost") this.lost();
    else if (this.phase === "waiting" && this.retry) this.again();
  }

  isBusy() {
    return this.current !== null && !this.current.ended;
  }

  text(m) {
    if (m.type === "hello") return this.post(m);
    const u = this.current;
    if (m.type === "error") return this.refused(m);
    if (m.type === "trace") {
      const whose = [u, this.last].find((x) => x?.id === m.utterance);
      if (whose) whose.urls = { trace: m.trace_url, wav: m.wav_url };
      return this.post({ ...m, mode: whose?.mode });
    }
    if (!u || m.utterance !== u.id) return undefined;
    if (m.type === "queued" || m.type === "ready") this.queued(u, m);
    if (m.type === "failed" && u.isQueued) return this.unplaced(m);
    u.event(m);
    this.outbox.add(m);
    if (m.type === "revised") this.feed.cut(m.from_sample);
    if (m.type === "word_end") this.wordEnded(u, m);
    if (m.type === "flushed") this.feed.keepPhrases(false); // who rests wants to hear the rest
    if (m.type === "committed") this.feed.keepPhrases(u.byPhrase);
    if (m.type === "ended" || m.type === "failed") this.serverEnded(m);
    return undefined;
  }

  packet(buffer) {
    const p = parsePacket(buffer);
    const u = this.current;
    if (!p || !u || p.utterance !== u.id || p.take < u.take || this.phase === "stopping") return;
    const mark = u.packet(p);
    const columns = u.spectrum.push(p.pcm);
    if (columns.length) this.outbox.add({ type: "columns", data: columns });
    this.feed.packet(p, mark);
    if (!this.isSlow && u.pace.audioMs > JUDGED_MS && u.slowness > TOO_SLOW) this.slow(true);
  }

  /** A word may be heard, or its phrase if that is over. */
  wordEnded(u, m) {
    if (this.feed.isByPhrase && !this.phrases.isOver(u.words, m.i)) return;
    if (this.feed.isByPhrase) this.feed.setRate(rateFor(typedWpm(u.words)));
    this.feed.release(m.sample);
  }

  /** Where the utterance stands in the queue for a place, or that it has one now. */
  queued(u, m) {
    u.isKnown = true;
    this.post({ type: "queue", ahead: m.ahead ?? null });
    if (u.isQueued && m.type === "ready") {
      u.closing = { tMs: now(), cause: "place" }; // the latency shown is the voice's, not the queue's
      this.keyboard.inputMs = now();
    }
    u.isQueued = m.type === "queued";
  }

  /** It waited in vain: the text stays in the field. */
  unplaced(m) {
    this.current.ended = true;
    this.drop();
    this.post({ type: "error", code: "unplaced", message: `${m.message}. Your text is kept: Speak tries again.` });
  }

  /** Keep words whole while speech is made slower than it is heard, and say so. */
  slow(isSlow) {
    this.isSlow = isSlow;
    this.feed.keepWhole(isSlow);
    this.post({ type: "slow", isSlow });
  }

  refused(m) {
    // What was on its way to an utterance that has gone is no news.
    const isOfSocket = m.utterance === undefined;
    if (!isOfSocket && m.utterance !== this.current?.id) return;
    const isBusy = !isOfSocket && m.code === "busy";
    const isNotBegun = !isOfSocket && m.code === "bad_option" && !this.current.isKnown;
    if (isBusy && this.phase === "stopping") return void this.over(); // nobody wants it any more
    if (isBusy) {
      this.takeBack();
      this.retryTimer = setTimeout(() => this.again(), m.retry_ms ?? 2000);
    } else if (isNotBegun) { // its settings do not go together: the text waits for others
      if (this.mode === "keyboard") this.keyboard.reclaim(this.current);
      this.endsNext = false;
      this.drop();
    } else if (!isOfSocket && m.code !== "bad_option" && !this.current.samples) {
      this.drop();
    }
    this.post(m);
  }

  /** The server has nothing of this utterance: its text waits, whole, to be begun anew. */
  takeBack() {
    const retry = this.restart;
    if (this.mode === "keyboard") this.keyboard.reclaim(this.current);
    this.drop();
    this.wait(retry);
  }

  /** The socket was closed as idle. Whether what was on its way to it meanwhile will be said by the next one. */
  takesBack() {
    if (this.current.isKnown || this.phase === "stopping") return false;
    this.takeBack();
    return true;
  }

  serverEnded(m) {
    const u = this.current;
    this.schedule?.stop();
    this.keepRest();
    if (this.phase === "stopping" || u.samples === 0) return this.over();
    this.turn("ending");
    this.feed.final();
    if (m.type === "failed") this.post({ type: "error", code: m.code, message: m.message });
    return undefined;
  }

  lost() {
    const u = this.current;
    if (!u || u.ended) return;
    u.ended = true;
    this.schedule?.stop();
    this.keepRest();
    this.rest = this.phase === "stopping" ? null : restOf(this, u);
    this.post({ type: "cutoff", hasRest: this.rest !== null });
    if (this.phase === "stopping" || !u.samples) this.over();
    else this.turn("ending");
    this.feed.final();
  }

  /** An utterance that ends by itself takes its text along; after finish and stop what was typed since is the next one's. */
  keepRest() {
    if (this.phase === "open" && this.mode === "keyboard") this.keyboard.close();
  }

  // --- what the player says ---------------------------------------------------------------------

  begun(play) {
    const replay = this.phase === "replay";
    this.post({ type: "begin", play, id: this.current?.id, mode: replay ? "replay" : this.mode, base: this.current?.base ?? null, from: this.replayFrom, rateHz: this.rateHz });
  }

  report(m) {
    const u = this.current;
    if (!u || this.phase === "replay") return;
    u.playedSample = m.sample;
    u.bufferedMs = (m.buffered * 1000) / this.rateHz;
    if (u.ended || this.phase === "stopping") return;
    this.socket.send({
      type: "played",
      utterance: u.id,
      sample: m.sample,
      buffered_ms: u.bufferedMs,
      underruns: m.underruns,
      output_latency_ms: this.latencyMs,
    });
  }

  resumed(sample, frames) {
    if (!this.current || this.phase === "replay") return;
    const u = this.current;
    const gap = u.gap(sample, frames);
    setTimeout(() => {
      u.explain(gap);
      if (u !== this.current) return;
      if (gap.reason !== "text") this.feed.holdMore();
      this.outbox.add({ type: "gap", ...gap });
    }, EXPLAIN_MS);
  }

  audible(m) {
    if (!this.current || this.phase === "replay") return;
    this.current.first.audibleMs = m.date + (now() - Date.now());
    this.figures();
  }

  done() {
    this.over();
  }

  stopped(m) {
    const u = this.current;
    if (!u) return undefined;
    this.stoppedAt = m.sample;
    if (this.phase === "replay" || u.ended) return this.over();
    u.playedSample = m.sample;
    this.socket.send({ type: "cancel", utterance: u.id, played_sample: m.sample });
    return undefined;
  }

  fault(m) {
    this.post({ type: "error", code: "player", message: `The player got samples from ${m.first} on, but needed ${m.expected}.` });
  }

  // --- what the person does ---------------------------------------------------------------------

  edit(change) {
    this.keyboard.edit(change);
  }

  /** The whole field again, from its start. */
  speakAll({ tMs }) {
    this.keyboard.base = 0;
    this.then(() => this.keyboard.open(tMs));
  }

  finish() {
    const u = this.current;
    if (this.phase !== "open") {
      this.endsNext = this.phase === "waiting" || this.afterwards !== null;
      return;
    }
    this.schedule?.stop();
    u.closes(now(), "finish");
    u.typed.endMs = now();
    u.ending = true;
    if (this.mode === "keyboard") {
      this.keyboard.end();
      this.keyboard.close();
    } else this.say({ type: "end" });
    this.turn("ending");
  }

  stop({ suspended = false } = {}) {
    clearTimeout(this.retryTimer);
    this.afterwards = this.rest = null; // stop means everything, also what was to come next
    this.endsNext = false;
    if (this.phase === "idle" || this.phase === "stopping") return;
    if (this.phase === "waiting") {
      this.keyboard.close();
      return void this.settle();
    }
    this.schedule?.stop();
    if (this.mode === "keyboard") this.keyboard.close();
    if (this.phase !== "replay") this.turn("stopping");
    this.feed.stop(suspended);
    if (!this.feed.port) this.stopped({ sample: 0 });
  }

  /** Somebody pressed Stop: what was kept is given up, too. */
  stopAll(m) {
    if (this.rest) this.keyboard.close();
    this.stop(m);
  }

  /** A race is heard alone: what is being said ends; what was kept stays so, and is offered. */
  makeWay(m) {
    const kept = keptOf(this);
    const { base } = this.keyboard;
    this.stop(m);
    if (!kept) return;
    this.rest = kept;
    this.keyboard.base = base; // what is typed on follows it
    this.post({ type: "kept" });
  }

  clear(m) {
    this.keyboard.clear();
    this.stop(m);
    this.post({ type: "cleared" }); // what was posted before is of what is gone, and so is all until the next begin
  }

  /** Say what is kept. */
  sayRest() {
    if (this.rest) this.then(this.rest);
  }

  /** One sentence of a speaker's, to choose by. */
  sample({ text }) {
    this.then(() => saySample(this, text));
  }

  llm({ text, rate }) {
    this.then(() => typeAsModel(this, text, rate));
  }

  /** The same text, pushed at each sentence's end only. */
  old() {
    const live = this.live;
    if (!live) return;
    this.then(() => sayOldWay(this, live));
  }

  replay() {
    this.then(() => {
      if (!this.last?.pcm.length) return;
      this.current = this.last;
      this.turn("replay");
      this.replayFrom = this.last.pcm[0].first;
      this.feed.replay(this.last);
      this.replayFrom = 0;
    });
  }

  settle() {
    this.retry = this.afterwards = null;
    this.endsNext = false;
    this.turn("idle");
  }

  turn(phase, more = {}) {
    this.phase = phase;
    this.post({ type: "phase", phase, mode: this.mode, ...more });
  }

  /** Do it now, or when what is being said has been heard. */
  then(action) {
    if (this.phase === "idle") return action();
    if (this.phase === "open") this.finish();
    this.afterwards = action;
    this.post({ type: "note", code: "queued" });
    return undefined;
  }

  change(settings, rateHz) {
    this.rateHz = rateHz;
    const before = JSON.stringify([this.settings.options, this.settings.temperature]);
    Object.assign(this.settings, settings);
    if (!this.hasSettings) {
      this.hasSettings = true;
      if (this.phase === "waiting" && this.retry) this.again();
      return;
    }
    const { options, temperature } = this.settings;
    if (this.phase === "open" && before !== JSON.stringify([options, temperature])) this.say({ type: "options", options, temperature });
  }

  // --- how an utterance lives -------------------------------------------------------------------

  /** Begin an utterance, whose text begins at `base` of the field; null where it is not in the field. */
  open(mode, source, restart, base = null) {
    this.mode = mode;
    if (!this.socket.isOpen || !this.hasSettings) {
      this.socket.wake();
      return void this.wait(restart);
    }
    this.restart = restart;
    const u = (this.current = new Utterance(this.nextId++, source, this.rateHz));
    Object.assign(u, { mode, base });
    u.spectrum = new Spectrum(this.rateHz);
    if (mode === "keyboard" || mode === "llm") this.live = u;
    this.afterwards = this.retry = this.rest = null;
    this.endsNext = false;
    this.keyboard.inputMs = now();
    u.asked = mode === "old" ? this.live.asked : structuredClone(this.settings);
    u.byPhrase = this.isSmooth && mode === "keyboard";
    this.phrases.begin();
    this.feed.keepPhrases(u.byPhrase);
    this.turn("open"); // first: a page that is still idle would take the new sound for heard out
    this.feed.begin();
    if (this.isSlow) this.post({ type: "slow", isSlow: true }); // as before
    this.say({ type: "open", source, credit_ms: u.byPhrase ? SMOOTH_CREDIT_MS : CREDIT_MS, ...u.asked });
    return u;
  }

  wait(retry) {
    this.retry = retry;
    this.turn("waiting");
  }

  again() {
    const retry = this.retry;
    if (this.phase !== "waiting" || !retry) return;
    this.phase = "idle";
    retry();
  }

  drop() {
    this.schedule?.stop();
    this.current = null;
    this.turn("idle");
  }

  over() {
    this.outbox.flush();
    const u = this.current;
    if (u) u.bufferedMs = 0;
    if (this.isSlow && u?.slowness < FAST_ENOUGH) this.slow(false);
    if (this.phase !== "replay" && u) this.last = u;
    this.figures();
    this.current = null;
    this.turn("idle", { finished: u?.id, stopped: this.stoppedAt });
    this.stoppedAt = undefined;
    const next = this.afterwards;
    this.afterwards = null;
    next?.();
  }

  say(message) {
    this.socket.send({ ...message, utterance: this.current.id });
  }

  // --- what the page is told --------------------------------------------------------------------

  figures() {
    const u = this.current;
    if (!u || this.phase === "replay") return;
    this.post({ type: "figures", mode: u.mode, phase: this.phase, buffered_ms: u.bufferedMs ?? 0, ...u.figures() });
  }

  beat() {
    if (this.phase === "idle") return;
    this.figures();
    const { current, mode, phase } = this;
    const isQuiet = phase === "open" && mode === "keyboard" && !current.isQueued && !(current.bufferedMs > 0);
    if (isQuiet && now() - this.keyboard.inputMs > IDLE_END_MS) {
      this.finish();
      this.post({ type: "note", code: "idle_end" });
    }
  }
}
