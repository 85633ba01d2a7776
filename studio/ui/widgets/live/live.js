// The Live page: joins the field, the Worker, the player and what is drawn.

import { ACTIONS } from "./actions.js";
import { Address } from "./address.js";
import { Caption } from "./field/caption.js";
import { Collect } from "./collect.js";
import { Editor } from "../wire/editor.js";
import { Figures } from "./figures.js";
import { Lights } from "./field/lights.js";
import { Player } from "../sound/player.js";
import { RACE_WPM, Race } from "./race/race.js";
import { RECEIVED } from "./received.js";
import { Scope } from "../sound/scope.js";
import { Settings } from "./settings.js";
import { Status } from "./status.js";
import { Talk } from "./talk/talk.js";
import { Timeline } from "./timeline.js";
import { Typist } from "./field/typist.js";
import { copy } from "./copy.js";
import { listen } from "./listen.js";
import { show } from "./controls.js";

const LATENCY_EVERY_MS = 500;
const BESIDE = ["speak", "link", "python", "curl", "reseed"]; // go with a text that types itself
const TYPE_FIRST = "Type something yourself, then hear your own typing again, a sentence at a time.";
const PASTED = "Off for pasted text: it came whole, so nobody had to wait for the end of a sentence. Type it, or start the race.";

export class Live {
  constructor(root, props, base, server) {
    this.root = root;
    this.server = server; // URL of the studio, ends with a slash
    this.params = new URLSearchParams(location.search);
    this.phase = "idle";
    this.mode = "keyboard";
    this.play = null; // what the ear may be hearing: {play, id, mode, from}; null when nothing is shown
    this.ahead = null; // how many wait before what is to be spoken; null where it has a place
    this.hasRest = false; // something is kept that was not said: the connection was lost, or a race came first
    this.rateHz = 24000;
    this.text = root.querySelector("#live-text");
    this.caption = new Caption(root);
    this.lights = new Lights(this.text, root.querySelector(".behind"));
    this.address = new Address(() => ({ text: this.text.value, settings: this.kept() }));
    this.scope = new Scope(root.querySelector(".scope"));
    this.figures = new Figures(root);
    this.status = new Status(root);
    this.collect = new Collect(root, server);
    this.timeline = new Timeline(root, server);
    this.settings = new Settings(root, this.params, { set: () => this.address.changed(), isActive: () => this.isActive, changed: (settings, rateHz) => this.configure(settings, rateHz) });
    this.player = new Player(base, { port: (port, rateHz) => this.tell({ type: "port", port, rateHz }, [port]), message: (m) => this.heard(m) }, this.params.has("tap"));
    this.worker = new Worker(`${base}/live/worker/worker.js`, { type: "module" });
    this.worker.onmessage = ({ data }) => this.receive(data);
    this.editor = new Editor(this.text, { edit: (change) => this.typed(change), finish: () => this.do("finish") });
    this.typist = new Typist(this.editor, { done: () => this.tell({ type: "finish" }) });
    listen(this, props.examples ?? []);
    const on = { type: (text) => this.example(text), sample: (text) => this.tell({ type: "sample", text }) };
    if (this.params.has("stage")) this.talk = new Talk(root, this.player, props.examples ?? [], on);
    if (this.params.has("tap")) this.tapInto();
    const url = new URL("ws/speak", server);
    url.protocol = url.protocol.replace("http", "ws");
    this.tell({ type: "start", url: url.href });
    this.race = new Race(root, this.player, url.href, props.race, this.params, { tell: (...message) => this.tell(...message), set: () => this.address.changed(), changed: () => this.race && this.show() });
    this.show();
    this.begun();
    this.frame = requestAnimationFrame((t) => this.tick(t));
  }

  /** What the address keeps of the settings, by name; null while the voices are not known. */
  kept() {
    const settings = this.settings.entries();
    return settings && new Map([...settings, ...this.race.second.entries()]);
  }

  tell(message, transfer = []) {
    this.worker.postMessage(message, transfer);
  }

  /** The text of the address stands there, not to be spoken yet; what was typed before the page could hear it is. */
  begun() {
    const early = this.text.value;
    const kept = this.params.get("text") ?? "";
    if (kept && !early) {
      this.editor.show(kept.slice(0, this.text.maxLength));
      this.tell({ type: "adopt", text: this.text.value });
    }
    this.player.prepare(this.rateHz);
    if (early) this.editor.send(performance.now());
    if (this.root.isFinished) this.do("finish");
    this.focus();
  }

  /** The cursor is in the field; not where that would open a keyboard over the page. */
  focus() {
    if (!matchMedia("(pointer: coarse)").matches) this.text.focus({ preventScroll: true });
  }

  // --- what the person does ---------------------------------------------------------------------

  gesture() {
    if (this.root.isConnected) this.player.wake(this.rateHz, this.phase === "idle");
  }

  typed(change) {
    this.race.stop();
    this.gesture(); // a menu or a voice can type as well as keys
    this.status.drop("empty");
    if (!this.text.value && this.phase === "open") return void this.clear();
    this.settings.settle();
    this.tell({ type: "edit", ...change });
    this.caption.isNew = true;
    this.address.changed();
    if (this.text.value.length >= this.text.maxLength) this.status.note("full");
  }

  example(text) {
    this.clear();
    this.focus();
    this.typist.start(text, RACE_WPM);
    this.show();
  }

  clear() {
    this.tell({ type: "clear", suspended: !this.player.isAwake });
    this.player.resume();
    this.typist.stop();
    this.race.stop();
    this.editor.forget();
    this.caption.isNew = true;
    this.status.clear();
    this.address.changed();
  }

  /** As at the start; what is still to come of the last utterance is not shown. */
  cleared() {
    this.play = null;
    this.hasSpoken = this.canCompare = this.hasRest = false;
    this.caption.clear();
    this.caption.put(false);
    this.lights.clear();
    this.scope.clear();
    this.figures.clear();
    this.figures.forgetComparison();
    this.pasted(false);
    this.links(null);
    this.show();
  }

  do(name) {
    this.gesture();
    this.settings.settle();
    if (!BESIDE.includes(name)) this.typist.stop();
    if (![...BESIDE, "race"].includes(name) || name === "speak") this.race.stop();
    ACTIONS[name](this);
    this.show();
  }

  /** What was kept is being said, or is not to be said. */
  forgetRest() {
    this.hasRest = false;
    this.status.drop("kept");
  }

  pause() {
    if (this.player.isPaused) this.player.resume();
    else this.player.pause();
    this.show();
  }

  configure(settings, rateHz) {
    this.rateHz = rateHz;
    this.tell({ type: "settings", settings, rateHz });
    this.race?.second.offer(this.settings, rateHz);
  }

  // --- what the Worker says ---------------------------------------------------------------------

  receive(m) {
    RECEIVED[m.type]?.(this, m);
  }

  begin(m) {
    this.play = m;
    this.isHeardOut = false;
    this.heardWords = null;
    this.isInSegment = false;
    this.status.drop("stopped");
    this.status.drop("queued");
    this.scope.rateHz = m.rateHz;
    this.lights.begin(m.base);
    this.caption.put(m.base === null || !this.lights.isAble);
    if (m.mode === "replay") return void this.caption.rewind();
    this.settings.clearNote();
    this.caption.clear();
    this.scope.clear();
    this.figures.clear();
    if (m.mode !== "old") this.figures.forgetComparison();
    this.links(null);
  }

  /** Whether there is something to stop. */
  get isActive() {
    return this.phase !== "idle" || this.race.isRunning || this.typist.isTyping;
  }

  /** What came whole cannot be compared: the old way would lose nothing by waiting for a sentence's end. */
  pasted(isPasted) {
    if (isPasted === this.isPasted) return;
    this.isPasted = isPasted;
    this.root.querySelector(".why-not").textContent = isPasted ? PASTED : TYPE_FIRST;
  }

  tellReaders(isTold) {
    this.caption.isTold = isTold;
    const { reader } = this.caption;
    if (isTold) reader.setAttribute("aria-live", "polite");
    else reader.removeAttribute("aria-live");
  }

  async copied(text, said) {
    if (await copy(text)) this.status.say("info", said);
    else this.status.say("error", "The browser keeps the clipboard from this page. Copy from the address bar instead.");
  }

  /** The settings that were chosen, as another page's address takes them. */
  get spokenWith() {
    const chosen = [...(this.settings.entries() ?? [])].filter(([, value]) => value !== null);
    return chosen.length ? `&${new URLSearchParams(chosen)}` : "";
  }

  links(urls) {
    this.collect.offer(urls);
    this.timeline.offer(urls?.trace_url ?? null);
    const hasLibrary = document.querySelector('.masthead a[href$="/library"]') !== null;
    for (const link of this.root.querySelectorAll("[data-get]")) {
      link.hidden = !urls || (link.dataset.get === "keep" && !hasLibrary);
      const path = urls && {
        wav: urls.wav_url,
        trace: urls.trace_url,
        heard: `${urls.wav_url}?as_heard=1`,
        inspect: urls.trace_url.replace(/^traces\/(.+)\.trace$/, "inspect?trace=$1"),
        compare: urls.trace_url.replace(/^traces\/(.+)\.trace$/, `compare?trace=$1${this.spokenWith}`),
        keep: urls.trace_url.replace(/^traces\/(.+)\.trace$/, "library?keep=$1"),
      }[link.dataset.get];
      if (path) link.href = new URL(path, this.server).href;
    }
    this.root.querySelector('[data-do="curl"]').disabled = !urls;
  }

  /** What the player inside the audio context says. */
  heard(m) {
    if (m.type === "audible") this.talk?.heard();
    if (m.type === "tap") this.root.tap?.blocks.push(m);
    else if (m.type === "turn") this.root.tap?.turns.push(m);
    else if (m.type === "fault") this.status.say("error", m.message ?? "The player lost its place. Stop, and speak again.");
    else if (m.type === "context") this.show();
  }

  tick(nowMs) {
    if (!this.root.isConnected) return this.dispose();
    this.frame = requestAnimationFrame((t) => this.tick(t));
    const heard = this.player.clock?.heard();
    const isOurs = heard && this.play && heard.play === this.play.play;
    const sample = isOurs ? heard.sample + (this.play.from ?? 0) : 0;
    if (isOurs && !this.isHeardOut) this.caption.heard(sample, nowMs);
    else if (this.caption.stale) this.caption.draw();
    if (isOurs && this.phase === "idle" && !heard.playing && !this.isHeardOut) {
      this.isHeardOut = true;
      this.caption.finish(nowMs);
    }
    this.scope.draw(sample, this.phase !== "idle", nowMs);
    this.race.tick();
    if (this.caption.isNew) {
      this.caption.isNew = false;
      this.lights.show(this.caption);
    }
    if (this.isMoving !== (isOurs && heard.playing)) {
      this.isMoving = isOurs && heard.playing;
      this.show();
    }
    if (nowMs - (this.latencySent ?? 0) > LATENCY_EVERY_MS && this.player.clock) {
      this.latencySent = nowMs;
      this.tell({ type: "latency", ms: this.player.clock.latencyMs });
      this.checkSound();
    }
    return undefined;
  }

  /** The browser keeps a page silent until somebody touches it. */
  checkSound() {
    const isMute = this.phase === "open" && !this.player.isAwake && !this.player.isPaused;
    if (isMute) this.status.say("warn", "Sound is off in this page. Click anywhere, or press a key, to hear it.", "mute");
    else this.status.drop("mute");
  }

  show() {
    show(this);
  }

  dispose() {
    this.root.ownerDocument.removeEventListener("keydown", this.escape);
    this.lights.dispose();
    this.talk?.dispose();
    cancelAnimationFrame(this.frame);
    for (const type of ["pointerdown", "keydown"]) document.removeEventListener(type, this.wake, true);
    removeEventListener("pagehide", this.leave);
    this.worker.terminate();
    this.player.close();
    this.scope.dispose();
    this.timeline.dispose();
    this.race.dispose();
  }

  /** A test hook, there only when the address asks for it: what was rendered, and when words lit. */
  tapInto() {
    const tap = (this.root.tap = { blocks: [], turns: [], lit: [], events: [], page: this });
    this.caption.onLit = (i, sample) => tap.lit.push({ i, sample, ms: performance.now(), contextS: this.player.context.currentTime });
  }
}

/** Called by Gradio when the component is in the page. */
export function start(element, props, base, server) {
  const root = element.querySelector(".live");
  if (!root.live) root.live = new Live(root, props, base, server);
}
