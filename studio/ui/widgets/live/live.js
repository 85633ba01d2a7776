// The Live page: joins the field, the Worker, the player and what is drawn.

import { Caption } from "./caption.js";
import { Collect } from "./collect.js";
import { Editor } from "../wire/editor.js";
import { Figures } from "./figures.js";
import { Player } from "../sound/player.js";
import { RECEIVED } from "./received.js";
import { Scope } from "../sound/scope.js";
import { Settings } from "./settings.js";
import { Status } from "./status.js";

const LATENCY_EVERY_MS = 500;
const BEFORE_YOU = (ahead) => (ahead ? `All places are taken: ${ahead === 1 ? "1 person is" : `${ahead} people are`} before you.` : "All places are taken: you are next.");

export class Live {
  constructor(root, props, base, server) {
    this.root = root;
    this.server = server; // URL of the studio, ends with a slash
    this.params = new URLSearchParams(location.search);
    this.phase = "idle";
    this.mode = "keyboard";
    this.play = null; // what the ear may be hearing: {play, id, mode, from}; null when nothing is shown
    this.ahead = null; // how many wait before what is to be spoken; null where it has a place
    this.hasRest = false; // the connection was lost before all of a text was said
    this.rateHz = 24000;
    this.text = root.querySelector("#live-text");
    this.caption = new Caption(root);
    this.scope = new Scope(root.querySelector(".scope"));
    this.figures = new Figures(root);
    this.status = new Status(root);
    this.collect = new Collect(root, server);
    this.settings = new Settings(root, { changed: (settings, rateHz) => this.configure(settings, rateHz) });
    this.player = new Player(base, { port: (port, rateHz) => this.tell({ type: "port", port, rateHz }, [port]), message: (m) => this.heard(m) }, this.params.has("tap"));
    this.editor = new Editor(this.text, { edit: (change) => this.typed(change), finish: () => this.do("finish") });
    this.worker = new Worker(`${base}/live/worker/worker.js`, { type: "module" });
    this.worker.onmessage = ({ data }) => this.receive(data);
    this.listen(props.examples ?? []);
    if (this.params.has("tap")) this.tapInto();
    const url = new URL("ws/speak", server);
    url.protocol = url.protocol.replace("http", "ws");
    this.tell({ type: "start", url: url.href });
    this.frame = requestAnimationFrame((t) => this.tick(t));
    this.show();
  }

  tell(message, transfer = []) {
    this.worker.postMessage(message, transfer);
  }

  // --- what the person does ---------------------------------------------------------------------

  listen(examples) {
    const { root } = this;
    const box = root.querySelector(".examples");
    for (const { title, text } of examples) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: title, title: text });
      button.addEventListener("click", () => this.example(text));
      box.append(button);
    }
    const longest = examples.reduce((best, e) => (e.text.length > best.length ? e.text : best), "");
    root.querySelector("#live-llm").value = longest;
    for (const type of ["pointerdown", "keydown"]) root.ownerDocument.addEventListener(type, (this.wake = () => this.gesture()), true);
    root.addEventListener("click", (e) => {
      const name = e.target.closest("[data-do]")?.dataset.do;
      if (name) this.do(name);
    });
    const rate = root.querySelector("#live-rate");
    rate.addEventListener("input", () => (rate.parentElement.querySelector("output").textContent = rate.value));
    this.leave = () => this.dispose();
    addEventListener("pagehide", this.leave);
    addEventListener("pageshow", (e) => e.persisted && location.reload());
  }

  gesture() {
    if (this.root.isConnected) this.player.wake(this.rateHz, this.phase === "idle");
  }

  typed(change) {
    this.gesture(); // a menu or a voice can type as well as keys
    this.status.drop("empty");
    if (!this.text.value && this.phase === "open") return void this.clear();
    this.tell({ type: "edit", ...change });
    if (this.text.value.length >= this.text.maxLength) this.status.note("full");
  }

  example(text) {
    this.clear();
    this.editor.set(text);
    this.tell({ type: "finish" });
  }

  clear() {
    this.tell({ type: "clear", suspended: !this.player.isAwake });
    this.player.resume();
    this.editor.forget();
    this.status.clear();
  }

  /** As at the start; what is still to come of the last utterance is not shown. */
  cleared() {
    this.play = null;
    this.hasSpoken = this.canCompare = this.hasRest = false;
    this.caption.clear();
    this.scope.clear();
    this.figures.clear();
    this.figures.forgetComparison();
    this.links(null);
    this.show();
  }

  do(name) {
    this.gesture();
    ACTIONS[name](this);
    this.show();
  }

  pause() {
    if (this.player.isPaused) this.player.resume();
    else this.player.pause();
    this.show();
  }

  configure(settings, rateHz) {
    this.rateHz = rateHz;
    this.tell({ type: "settings", settings, rateHz });
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
    if (m.mode === "replay") return void this.caption.rewind();
    this.settings.clearNote();
    this.caption.clear();
    this.scope.clear();
    this.figures.clear();
    if (m.mode !== "old") this.figures.forgetComparison();
    this.links(null);
  }

  links(urls) {
    this.collect.offer(urls);
    for (const link of this.root.querySelectorAll("[data-get]")) {
      link.hidden = !urls;
      const path = urls && { wav: urls.wav_url, trace: urls.trace_url, heard: `${urls.wav_url}?as_heard=1` }[link.dataset.get];
      if (path) link.href = new URL(path, this.server).href;
    }
  }

  /** How many are before us in the queue for a place; null when it is our turn. */
  queue(ahead) {
    this.ahead = ahead;
    if (ahead === null) this.status.drop("queue");
    else this.status.say("warn", `${BEFORE_YOU(ahead)} Type on: your text is kept, and spoken when it is your turn.`, "queue");
    this.show();
  }

  /** Stop was pressed: say how much was heard. */
  stopped(sample) {
    const count = this.heardWords ?? this.caption.ends.filter((end) => end <= sample).length;
    this.status.say("info", `Stopped. You heard ${count} ${count === 1 ? "word" : "words"}, ${(sample / this.rateHz).toFixed(1)} s.`, "stopped");
  }

  /** What the player inside the audio context says. */
  heard(m) {
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

  /** Buttons and the chip, as the phase wants them. */
  show() {
    const { phase, player } = this;
    this.root.dataset.phase = phase;
    const isBusy = phase !== "idle";
    const button = (name) => this.root.querySelector(`[data-do="${name}"]`);
    const speak = button("speak");
    const isWaiting = phase === "waiting" || this.ahead !== null;
    speak.disabled = isWaiting;
    const label = !isBusy || isWaiting ? "Speak" : player.isPaused ? "Resume" : "Pause";
    if (speak.lastElementChild.textContent !== label) {
      speak.lastElementChild.textContent = label;
      speak.querySelector("path").setAttribute("d", label === "Pause" ? "M4 2.5h3v11H4zM9 2.5h3v11H9z" : "M4 2.5v11l9-5.5z");
    }
    button("finish").disabled = phase !== "open";
    button("stop").disabled = !isBusy;
    button("replay").disabled = isBusy || !this.hasSpoken;
    button("old").disabled = !this.canCompare || phase === "stopping" || (this.mode === "old" && isBusy);
    button("rest").hidden = !this.hasRest || isBusy || !this.isOnline;
    this.status.chip(this.state(), this.mode);
  }

  /** What is going on, in one word. */
  state() {
    if (!this.isOnline) return "offline";
    if (this.phase === "idle") return "idle";
    if (this.player.isPaused) return "paused";
    if (this.phase === "waiting" || this.ahead !== null) return "waiting";
    if (this.phase === "replay") return "replaying";
    if (this.isMoving) return "speaking";
    if (this.phase !== "open" || this.isInSegment) return "working"; // what is late now is not the text
    const toSay = this.caption.spelt.length - this.caption.starts.length;
    return toSay >= (this.settings.options.m ?? 1) ? "working" : "listening";
  }

  dispose() {
    cancelAnimationFrame(this.frame);
    for (const type of ["pointerdown", "keydown"]) document.removeEventListener(type, this.wake, true);
    removeEventListener("pagehide", this.leave);
    this.worker.terminate();
    this.player.close();
    this.scope.dispose();
  }

  /** A test hook, there only when the address asks for it: what was rendered, and when words lit. */
  tapInto() {
    const tap = (this.root.tap = { blocks: [], turns: [], lit: [], events: [], page: this });
    this.caption.onLit = (i, sample) => tap.lit.push({ i, sample, ms: performance.now(), contextS: this.player.context.currentTime });
  }
}

const ACTIONS = {
  speak(page) {
    if (page.phase !== "idle") return page.pause();
    if (!page.text.value.trim()) {
      page.status.say("info", "There is nothing to say yet: type something, or choose an example.", "empty");
      return page.text.focus();
    }
    page.status.clear();
    page.player.resume();
    return page.tell({ type: "speak", tMs: performance.timeOrigin + performance.now() });
  },
  finish(page) {
    page.tell({ type: "finish" });
    page.text.select();
  },
  stop(page) {
    page.tell({ type: "stop", suspended: !page.player.isAwake });
    page.player.resume();
    page.hasRest = false;
  },
  clear(page) {
    page.clear();
    page.text.focus();
  },
  replay: (page) => page.tell({ type: "replay" }),
  old: (page) => page.tell({ type: "old" }),
  rest(page) {
    page.status.clear();
    page.tell({ type: "rest" });
    page.text.focus(); // the button goes
  },
  llm(page) {
    const text = page.root.querySelector("#live-llm").value;
    if (!text.trim()) return page.status.say("info", "The model has nothing to type: give it a text.");
    return page.tell({ type: "llm", text, rate: Number(page.root.querySelector("#live-rate").value) });
  },
  reseed: (page) => page.settings.reseed(),
};

/** Called by Gradio when the component is in the page. */
export function start(element, props, base, server) {
  const root = element.querySelector(".live");
  if (!root.live) root.live = new Live(root, props, base, server);
}
