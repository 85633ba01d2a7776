// The state of the Worker: one socket, one utterance at a time, one player.

import { Feed } from "../../sound/feed.js";
import { Spectrum } from "../../sound/spectrum.js";
import { now } from "../../wire/packet.js";
import { Connection } from "./connection.js";
import { Keyboard } from "./keyboard.js";
import { Phrases, SMOOTH_CREDIT_MS } from "./pacing.js";
import { PlayerEvents } from "./player_events.js";
import { recordingOf } from "./recording.js";
import { pendingText } from "./remaining_text.js";
import { askModel, speakBySentence, speakSample, typeAsModel } from "./streams.js";
import { Utterance } from "./utterance.js";

const CREDIT_MS = 2000;
const IDLE_END_MS = 30000; // without typing, after which an utterance ends and frees its slot
const FIGURES_MS = 100;
const DRAFT_S = 0.5; // of played sound between two drafts of its recording
const DRAFT_SHARE = 0.02; // of the played sound instead, where that is more: a draft copies all of it
const FAST_ENOUGH = 0.85; // real-time factor below which a server is no longer slow

/** The name of the voice, without the speaker. */
const voiceOf = (settings) => settings?.voice?.split(":")[0];

export class Session {
  /**
   * @param url of the socket
   * @param post sends a message to the page
   * @param outbox sends messages to the page in batches
   */
  constructor(url, post, outbox) {
    this.post = post;
    this.outbox = outbox;
    this.keyboard = new Keyboard(this);
    this.phase = "idle"; // idle | open | ending | stopping | waiting | replay
    this.mode = "keyboard"; // keyboard | llm | chat | old (by sentences) | sample
    this.current = this.last = this.live = null;
    this.speakStored = null; // an action; the text was cut off by a lost connection, or not begun before another sound
    this.nextId = 1;
    this.settings = { voice: "", seed: 0, temperature: null, speed: 1, options: {} };
    this.hasSettings = false; // the page has sent settings
    this.rateHz = 24000;
    this.endsNext = false; // the text of the next utterance is complete
    this.latencyMs = this.replayFrom = 0;
    this.isSmooth = false; // play by phrases
    this.phrases = new Phrases();
    this.isSlow = false; // the server is slower than real time
    this.schedule = null; // of an utterance that is not typed
    this.retry = this.restart = this.nextAction = this.retryTimer = null;
    this.stoppedAt = undefined; // sample at which Stop took effect
    this.playerEvents = new PlayerEvents(this);
    this.feed = new Feed(this.playerEvents);
    this.connection = new Connection(url, this);
    setInterval(() => this.tick(), FIGURES_MS);
  }

  // --- user commands ----------------------------------------------------------------------------

  edit(change) {
    this.keyboard.edit(change);
  }

  /** Speak the whole field from its start. */
  speakAll({ tMs }) {
    this.keyboard.base = 0;
    this.enqueue(() => this.keyboard.open(tMs));
  }

  finish() {
    const u = this.current;
    if (this.phase !== "open") {
      this.endsNext = this.phase === "waiting" || this.nextAction !== null;
      return;
    }
    if (this.mode === "chat") return; // the server ends it
    this.schedule?.stop();
    u.noteClosing(now(), "finish");
    u.typed.endMs = now();
    u.ending = true;
    if (this.mode === "keyboard") {
      this.keyboard.end();
      this.keyboard.close();
    } else this.send({ type: "end" });
    this.setPhase("ending");
  }

  stop({ suspended = false } = {}) {
    clearTimeout(this.retryTimer);
    this.nextAction = this.speakStored = null; // stop cancels everything, also queued actions
    this.endsNext = false;
    if (this.phase === "idle" || this.phase === "stopping") return;
    if (this.phase === "waiting") {
      this.keyboard.close();
      return void this.settle();
    }
    this.schedule?.stop();
    if (this.mode === "keyboard") this.keyboard.close();
    if (this.phase !== "replay") this.setPhase("stopping");
    this.feed.stop(suspended);
    if (!this.feed.port) this.playerEvents.onStopped({ sample: 0 });
  }

  /** Stop, and discard stored text too. */
  stopAll(m) {
    if (this.speakStored) this.keyboard.close();
    this.stop(m);
  }

  /** Stop before another sound plays; unspoken text is stored and offered. */
  stopAndStore(m) {
    const pending = pendingText(this);
    const { base } = this.keyboard;
    this.stop(m);
    if (!pending) return;
    this.speakStored = pending;
    this.keyboard.base = base; // later text follows it
    this.post({ type: "rest" });
  }

  clear(m) {
    this.keyboard.clear();
    this.stop(m);
    this.post({ type: "cleared" }); // the page ignores events from here to the next begin
  }

  /** Speak the stored text. */
  speakRest() {
    if (this.speakStored) this.enqueue(this.speakStored);
  }

  /** Speak a sample of the selected speaker. */
  sample({ text }) {
    this.enqueue(() => speakSample(this, text));
  }

  llm({ text, rate }) {
    this.enqueue(() => typeAsModel(this, text, rate));
  }

  /** Speak the language model's reply to the last of the messages. */
  ask({ messages }) {
    this.enqueue(() => askModel(this, messages));
  }

  /** Speak the last typed text again, sent sentence by sentence. */
  speakBySentence() {
    const live = this.live;
    if (!live) return;
    this.enqueue(() => speakBySentence(this, live));
  }

  replay() {
    this.enqueue(() => {
      if (!this.last?.pcm.length) return;
      this.current = this.last;
      this.setPhase("replay");
      this.replayFrom = this.last.pcm[0].first;
      this.feed.replay(this.last);
      this.replayFrom = 0;
    });
  }

  settle() {
    this.retry = this.nextAction = null;
    this.endsNext = false;
    this.setPhase("idle");
  }

  setPhase(phase, more = {}) {
    this.phase = phase;
    this.post({ type: "phase", phase, mode: this.mode, ...more });
  }

  /** Run an action now, or when the current speech has been played. */
  enqueue(action) {
    if (this.phase === "idle") return action();
    if (this.phase === "open") this.finish();
    this.nextAction = action;
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
    const isSameVoice = voiceOf(this.settings) === voiceOf(this.current?.settings); // another one speaks the next text
    if (this.phase !== "open" || !isSameVoice || before === JSON.stringify([options, temperature])) return;
    this.send({ type: "options", options, temperature });
  }

  // --- life cycle of an utterance ---------------------------------------------------------------

  /** Open an utterance whose text begins at `base` of the field; null: its text is not in the field. */
  open(mode, source, restart, base = null) {
    this.mode = mode;
    const { socket } = this.connection;
    if (!socket.isOpen || !this.hasSettings) {
      socket.wake();
      return void this.wait(restart);
    }
    this.restart = restart;
    const u = new Utterance(this.nextId++, source, this.rateHz);
    this.current = u;
    Object.assign(u, { mode, base });
    u.spectrum = new Spectrum(this.rateHz);
    if (mode === "keyboard" || mode === "llm") this.live = u;
    this.nextAction = this.retry = this.speakStored = null;
    this.endsNext = false;
    this.keyboard.inputMs = now();
    u.settings = mode === "old" ? this.live.settings : structuredClone(this.settings);
    u.byPhrase = this.isSmooth && mode === "keyboard";
    this.phrases.begin();
    this.feed.holdPhrases(u.byPhrase);
    this.setPhase("open"); // before begin(): an idle page would take the new playback for finished
    this.feed.begin();
    if (this.isSlow) this.post({ type: "slow", isSlow: true });
    this.send({ type: "open", source, credit_ms: u.byPhrase ? SMOOTH_CREDIT_MS : CREDIT_MS, ...u.settings });
    return u;
  }

  wait(retry) {
    this.retry = retry;
    this.setPhase("waiting");
  }

  again() {
    const retry = this.retry;
    if (this.phase !== "waiting" || !retry) return;
    this.phase = "idle";
    retry();
  }

  /** The server has nothing of the utterance: its whole text waits for the next attempt. */
  requeue() {
    const retry = this.restart;
    if (this.mode === "keyboard") this.keyboard.reclaim(this.current);
    this.discard();
    this.wait(retry);
  }

  /** The typed text so far belongs to the utterance that ended; after Finish and Stop, later text begins a new one. */
  closeTyped() {
    if (this.phase === "open" && this.mode === "keyboard") this.keyboard.close();
  }

  discard() {
    this.schedule?.stop();
    this.current = null;
    this.setPhase("idle");
  }

  /** Playback is complete, or there is none. */
  playbackEnded() {
    this.outbox.flush();
    const u = this.current;
    if (u) u.bufferedMs = 0;
    if (this.isSlow && u?.slowness < FAST_ENOUGH) this.setSlow(false);
    if (this.phase !== "replay" && u) {
      this.last = u;
      const played = recordingOf(u, this.stoppedAt);
      if (played) this.post(played, [played.wav]);
    }
    this.postFigures();
    this.current = null;
    this.setPhase("idle", { finished: u?.id, stopped: this.stoppedAt });
    this.stoppedAt = undefined;
    const next = this.nextAction;
    this.nextAction = null;
    next?.();
  }

  send(message) {
    this.connection.socket.send({ ...message, utterance: this.current.id });
  }

  // --- messages to the page ---------------------------------------------------------------------

  /** Hold words until they are complete while the server is slower than real time, and report it. */
  setSlow(isSlow) {
    this.isSlow = isSlow;
    this.feed.holdWords(isSlow);
    this.post({ type: "slow", isSlow });
  }

  postFigures() {
    const u = this.current;
    if (!u || this.phase === "replay") return;
    this.post({ type: "figures", mode: u.mode, phase: this.phase, buffered_ms: u.bufferedMs ?? 0, ...u.figures() });
  }

  /** Post the recording so far: a page that is left has no time to ask for it. */
  postDraft() {
    const u = this.current;
    if (!u || this.phase === "replay") return;
    const step = Math.max(DRAFT_S * this.rateHz, DRAFT_SHARE * u.playedSample);
    if (u.playedSample - u.draftSample < step) return;
    u.draftSample = u.playedSample;
    const recording = recordingOf(u, u.playedSample);
    this.post({ type: "draft", recording }, recording ? [recording.wav] : []);
  }

  tick() {
    if (this.phase === "idle") return;
    this.postFigures();
    this.postDraft();
    const { current, mode, phase } = this;
    const isQuiet = phase === "open" && mode === "keyboard" && !current.isQueued && !(current.bufferedMs > 0);
    if (isQuiet && now() - this.keyboard.inputMs > IDLE_END_MS) {
      this.finish();
      this.post({ type: "note", code: "idle_end" });
    }
  }
}
