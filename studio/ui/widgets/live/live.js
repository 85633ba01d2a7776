// The Live page: connects the field, the Worker, the player and the pictures.

import { Terms } from "../glossary/tips.js";
import { t } from "../page/translate.js";
import { Shared } from "../share/shared.js";
import { Player } from "../sound/player.js";
import { Scope } from "../sound/scope.js";
import { Editor } from "../wire/editor.js";
import { ACTIONS } from "./actions.js";
import { Address } from "./address.js";
import { Chat } from "./chat/chat.js";
import { CollectForm } from "./collect_form.js";
import { bindControls, updateControls } from "./controls.js";
import { EarlyLinks } from "./early_links.js";
import { Caption } from "./field/caption.js";
import { LastWordHint } from "./field/last_word.js";
import { Typist } from "./field/typist.js";
import { WordHighlights } from "./field/word_highlights.js";
import { Figures } from "./figures.js";
import { checkSound, drawFrame } from "./frame.js";
import { History } from "./history/history.js";
import { updateLinks } from "./links.js";
import { MediaKeys } from "./media_keys.js";
import { MESSAGE_HANDLERS } from "./messages.js";
import { RACE_WPM, Race } from "./race/race.js";
import { Settings } from "./settings.js";
import { Status } from "./status.js";
import { Talk } from "./talk/talk.js";
import { Timeline } from "./timeline.js";

const LATENCY_EVERY_MS = 500;
const KEEP_TYPING = ["speak", "link", "clip", "html", "python", "curl", "reseed"]; // do not stop an example that is being typed
const TYPE_FIRST = t("Type something yourself, then hear the same typing, a sentence at a time.");
const PASTED = t(
  "Not available for pasted text, which has no wait for the end of a sentence. Type it, or start the race.",
);

export class Live {
  constructor(root, props, base, server) {
    this.root = root;
    this.server = server; // URL of the studio, ends with a slash
    this.params = new URLSearchParams(location.search);
    this.escape = this.wake = this.leave = null; // listeners, set by bindControls
    this.phase = "idle";
    this.mode = "keyboard";
    this.play = null; // the playback shown: {play, id, mode, from}, or null
    this.ahead = null; // requests ahead in the queue; null if admitted
    this.hasRest = false; // unspoken text is stored: after a lost connection, or before a race
    this.rateHz = 24000;
    this.text = root.querySelector("#live-text");
    this.caption = new Caption(root, props.reasons);
    this.highlights = new WordHighlights(this.text, root.querySelector(".behind"));
    this.address = new Address(() => ({ text: this.text.value, settings: this.storedSettings() }));
    this.scope = new Scope(root.querySelector(".scope"));
    this.figures = new Figures(root);
    this.status = new Status(root);
    this.early = new EarlyLinks(root, () => this.do("finish"));
    this.lastWord = new LastWordHint(root, () => this.phase === "open" && this.mode === "keyboard");
    this.collectForm = new CollectForm(root, server);
    this.timeline = new Timeline(root, server);
    const onHistory = { stopAndStore: () => this.stopAndStore(), volume: () => this.player.volume };
    this.history = new History(root, server, onHistory);
    this.settings = new Settings(root, this.params, new Terms(props.terms), {
      set: () => this.address.changed(),
      isActive: () => this.isActive,
      changed: (settings, rateHz) => this.configure(settings, rateHz),
    });
    const onPlayer = {
      port: (port, rateHz) => this.post({ type: "port", port, rateHz }, [port]),
      message: (m) => this.onPlayerMessage(m),
    };
    this.player = new Player(base, onPlayer, this.params.has("tap"));
    this.worker = new Worker(`${base}/live/worker/worker.js`, { type: "module" });
    this.worker.onmessage = ({ data }) => MESSAGE_HANDLERS[data.type]?.(this, data);
    const onEditor = { edit: (change) => this.onEdit(change), finish: () => this.do("finish") };
    this.editor = new Editor(this.text, { ...onEditor, adopt: (text) => this.adopt(text) });
    this.typist = new Typist(this.editor, { done: () => this.post({ type: "finish" }) });
    bindControls(this, props.examples ?? []);
    this.shared = new Shared(this);
    const on = { type: (text) => this.example(text), sample: (text) => this.post({ type: "sample", text }) };
    this.chat = new Chat(root, {
      ask: (messages) => this.ask(messages),
      stop: () => this.do("stop"),
      isActive: () => this.isActive,
    });
    this.mediaKeys = new MediaKeys(`${base}/page/icons/icon-512.png`, {
      play: () => (this.phase === "idle" || this.player.isPaused) && this.do("speak"),
      pause: () => this.phase !== "idle" && !this.player.isPaused && this.pause(),
      stop: () => this.do("stop"),
    });
    this.talk = new Talk(root, this.player, props.examples ?? [], on);
    if (this.params.has("tap")) this.tapInto();
    const url = new URL("ws/speak", server);
    url.protocol = url.protocol.replace("http", "ws");
    this.post({ type: "start", url: url.href });
    this.race = new Race(root, this.player, url.href, props.race, this.params, {
      post: (message, transfer) => this.post(message, transfer),
      set: () => this.address.changed(),
      changed: () => this.race && this.show(),
    });
    this.show();
    this.restoreText();
    this.frame = requestAnimationFrame((nowMs) => this.tick(nowMs));
  }

  /** The settings stored in the address, by name; null before the voices are known. */
  storedSettings() {
    const settings = this.settings.entries();
    for (const [name, value] of this.race.opponent.entries()) settings?.set(name, value);
    return settings;
  }

  post(message, transfer = []) {
    this.worker.postMessage(message, transfer);
  }

  /** Show the text of the address without speaking it; text typed before the page was ready is spoken instead. */
  restoreText() {
    const early = this.text.value === this.text.given ? "" : this.text.value; // boot.js gives the text
    const text = this.params.get("text") ?? "";
    if (text && !early) this.editor.adopt(text.slice(0, this.text.maxLength));
    this.player.prepare(this.rateHz);
    if (early) this.editor.send(performance.now());
    if (this.root.isFinished) this.do("finish");
    if (early || !this.shared.focus()) this.focus();
  }

  /** Focus the field, except where that would open an on-screen keyboard. */
  focus() {
    if (!matchMedia("(pointer: coarse)").matches) this.text.focus({ preventScroll: true });
  }

  // --- user input -------------------------------------------------------------------------------

  gesture() {
    if (this.root.isConnected) this.player.wake(this.rateHz, this.phase === "idle");
  }

  onEdit(change) {
    this.race.stop();
    this.gesture(); // menus and dictation enter text without key presses
    this.status.drop("empty");
    if (!this.text.value && this.phase === "open") return void this.clear();
    this.settings.flush();
    this.post({ type: "edit", ...change });
    this.caption.isNew = true;
    this.address.changed();
    if (this.text.value.length >= this.text.maxLength) this.status.note("full");
  }

  /** A text that is shown, not spoken. */
  adopt(text) {
    this.post({ type: "adopt", text });
    this.address.changed();
    this.show();
  }

  example(text) {
    this.clear();
    this.focus();
    this.typist.start(text, RACE_WPM);
    this.show();
  }

  /** Have the language model reply to the last message. */
  ask(messages) {
    this.gesture();
    this.settings.flush();
    this.history.stop();
    this.post({ type: "ask", messages });
  }

  clear() {
    this.post({ type: "clear", suspended: !this.player.isAwake });
    this.player.resume();
    this.typist.stop();
    this.race.stop();
    this.editor.reset();
    this.caption.isNew = true;
    this.status.clear();
    this.address.changed();
  }

  /** Back to the initial state; later events of the last utterance are not shown. */
  reset() {
    this.play = null;
    this.hasSpoken = this.canCompare = this.hasRest = false;
    this.caption.clear();
    this.caption.setVisible(false);
    this.highlights.clear();
    this.scope.clear();
    this.figures.clear();
    this.figures.clearComparison();
    this.setPasted(false);
    this.links(null);
    this.show();
  }

  do(name) {
    this.gesture();
    this.settings.flush();
    if (!KEEP_TYPING.includes(name)) this.typist.stop();
    if (![...KEEP_TYPING, "race"].includes(name) || name === "speak") this.race.stop();
    ACTIONS[name](this);
    this.show();
  }

  /** The stored text is being spoken, or was discarded. */
  clearRest() {
    this.hasRest = false;
    this.status.drop("rest");
  }

  pause() {
    if (this.player.isPaused) this.player.resume();
    else this.player.pause();
    this.show();
  }

  /** Stop all speech before another sound plays; unspoken text is stored and offered. */
  stopAndStore() {
    this.typist.stop();
    this.race.stop();
    this.post({ type: "stopAndStore", suspended: !this.player.isAwake });
    this.player.resume();
  }

  configure(settings, rateHz) {
    this.rateHz = rateHz;
    this.post({ type: "settings", settings, rateHz });
    this.race?.opponent.setVoices(this.settings, rateHz);
  }

  // --- messages ---------------------------------------------------------------------------------

  begin(m) {
    this.history.stop();
    this.play = m;
    this.isPlayedOut = false;
    this.playedWords = null;
    this.isInSegment = false;
    for (const topic of ["stopped", "queued"]) this.status.drop(topic);
    this.scope.rateHz = m.rateHz;
    this.highlights.begin(m.base);
    const isElsewhere = m.mode === "chat"; // words light up in the conversation
    this.caption.setVisible(!isElsewhere && (m.base === null || !this.highlights.isSupported));
    if (m.mode === "replay") return void this.caption.rewind();
    this.settings.clearNote();
    this.caption.clear();
    this.scope.clear();
    this.figures.clear();
    if (m.mode !== "old") this.figures.clearComparison();
    this.links(null);
  }

  /** Whether Stop has something to stop. */
  get isActive() {
    return this.phase !== "idle" || this.race.isRunning || this.typist.isTyping;
  }

  /** Pasted text cannot be compared: it has no wait for the end of a sentence. */
  setPasted(isPasted) {
    if (isPasted === this.isPasted) return;
    this.isPasted = isPasted;
    this.root.querySelector(".why-not").textContent = isPasted ? PASTED : TYPE_FIRST;
  }

  links(urls) {
    this.collectForm.offer(urls);
    this.timeline.show(urls?.trace_url ?? null);
    updateLinks(this.root, this.server, urls, this.settings.entries());
    this.early.settle(urls !== null);
  }

  /** A message of the player in the audio context. */
  onPlayerMessage(m) {
    if (m.type === "audible") this.talk?.onAudible();
    if (m.type === "tap") this.root.tap?.blocks.push(m);
    else if (m.type === "turn") this.root.tap?.turns.push(m);
    else if (m.type === "fault")
      this.status.show("error", m.message ?? t("The player lost its position. Stop, and speak again."));
    else if (m.type === "context") this.show();
  }

  tick(nowMs) {
    if (!this.root.isConnected) return this.dispose();
    this.frame = requestAnimationFrame((nowMs) => this.tick(nowMs));
    drawFrame(this, nowMs);
    if (nowMs - (this.latencySent ?? 0) > LATENCY_EVERY_MS && this.player.clock) {
      this.latencySent = nowMs;
      this.post({ type: "latency", ms: this.player.clock.latencyMs });
      checkSound(this);
    }
    return undefined;
  }

  show() {
    updateControls(this);
  }

  dispose() {
    this.root.ownerDocument.removeEventListener("keydown", this.escape);
    this.highlights.dispose();
    this.talk?.dispose();
    this.mediaKeys.dispose();
    this.chat.dispose();
    cancelAnimationFrame(this.frame);
    for (const type of ["pointerdown", "keydown"]) document.removeEventListener(type, this.wake, true);
    removeEventListener("pagehide", this.leave);
    this.worker.terminate();
    this.player.close();
    this.scope.dispose();
    this.timeline.dispose();
    this.history.dispose();
    this.race.dispose();
  }

  /** A test hook (?tap): the rendered samples, and when words lit. */
  tapInto() {
    const tap = { blocks: [], turns: [], lit: [], events: [], page: this };
    this.root.tap = tap;
    this.caption.onLit = (i, sample) =>
      tap.lit.push({ i, sample, ms: performance.now(), contextS: this.player.context.currentTime });
  }
}

/** Called when the component is in the page. */
export function start(element, { props, base, server }) {
  const root = element.querySelector(".live");
  if (!root.live) root.live = new Live(root, props, base, server);
}
