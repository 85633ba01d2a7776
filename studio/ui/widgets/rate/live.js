// A live screen: voice A speaks while the rater types; voice B gets the same keystrokes. Then follow the choice and, if the
// test asks questions, the scores of each voice.

import { Editor } from "../wire/editor.js";
import { LiveView, NAMES } from "./live_view.js";
import { CHOICE_KEYS } from "./marks.js";

const BUSY_MS = 1000;
const MAX_AUTO_PLAYS = 3; // automatic plays of voice B; then the rater decides

export class LiveTrial {
  /** `state` is the response of /mos/next; `draft` the saved input of this screen; `on` has `saveDraft(draft)`, `send(answer)`, `announce(text)`. */
  constructor(state, connection, draft, words, on) {
    this.screen = state.screen;
    this.trial = state.trial;
    this.connection = connection;
    this.words = words;
    this.on = on;
    this.heardMs = draft?.heardMs ?? [0, 0];
    this.late = 0;
    this.ahead = null; // raters ahead in the queue
    this.hasEarlyText = false; // text was typed before the voice was ready
    this.finishesEarly = false; // and finished
    this.speaking = -1; // the slot that speaks or is starting
    this.spentMs = draft?.spentMs ?? 0;
    this.beganMs = performance.now();
    this.plays = draft?.plays ?? [0, 0];
    this.isRestoring = true;
    this.view = new LiveView(this);
    this.element = this.view.element;
    this.editor = new Editor(this.view.fields[0], { edit: (m) => this.edited(m), finish: () => this.finish() });
    if (draft) {
      this.editor.reset();
      this.view.fields[0].value = this.view.fields[1].value = draft.text ?? "";
      if (draft.mark) this.view.mark.set(draft.mark);
      for (const [k, value] of (draft.scores ?? []).entries()) if (value !== null) this.view.scores[k]?.set(value);
    }
    this.isRestoring = false;
    this.press = (event) => this.pressed(event);
    document.addEventListener("keydown", this.press);
    connection.on = this;
    this.update();
  }

  /** In an arena without further questions, the choice is the whole answer. */
  get isVote() {
    return this.screen.kind === "arena" && !this.screen.questions.length;
  }

  // --- input ------------------------------------------------------------------------------------

  get isTyping() {
    return this.phase === "open" && this.speaking === 0;
  }

  /** Before the voice is ready, and not in the queue: typed text is sent once it is. */
  get acceptsEarlyText() {
    return this.phase === "starting" && this.speaking === 0 && this.ahead === null;
  }

  /** Whether the rater may type and finish. */
  get mayType() {
    return this.isTyping || (this.acceptsEarlyText && !this.finishesEarly);
  }

  edited(m) {
    if (this.isTyping) this.connection.post({ type: "edit", ...m });
    else this.hasEarlyText = true;
  }

  begin(slot) {
    if (this.speaking >= 0 || this.isLocked || (slot && !this.heardMs[0])) return;
    this.connection.player.wake(this.screen.rate_hz, true);
    this.speaking = slot;
    this.phase = "starting";
    this.heardMs[slot] = 0;
    if (!slot) this.heardMs[1] = 0; // voice B got the previous text
    this.view.fields[1].value = "";
    if (!slot && !this.hasEarlyText) this.editor.reset();
    this.connection.post({ type: "begin", trial: this.trial.trial, slot, rateHz: this.screen.rate_hz });
    this.update();
    if (!slot) this.view.fields[0].focus(); // inside the click handler: mobile browsers open no keyboard otherwise
  }

  finish() {
    if (!this.mayType) return;
    if (!this.view.fields[0].value.trim()) return void this.remind(this.words.text("live_nothing"));
    if (this.isTyping) {
      this.phase = "ending";
      this.connection.post({ type: "end" });
    } else this.finishesEarly = true; // once the voice is ready
    this.update();
  }

  pressed(event) {
    if (this.speaking >= 0) this.connection.player.wake(this.screen.rate_hz, false); // it may await a gesture
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || this.isLocked) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (
      !this.element.isConnected ||
      document.querySelector("dialog[open]") ||
      target.closest("textarea:not([readonly]), button, a, summary")
    )
      return;
    if (event.key === "Enter") this.send();
    else if (this.view.mark.element.disabled) {
      if (event.key.length === 1 && event.key !== " ") this.remind(); // typed too early, or a choice before both voices were heard
      return;
    } else {
      const choice = Object.keys(CHOICE_KEYS).find((name) => CHOICE_KEYS[name] === event.key.toLowerCase());
      if (!choice || !this.view.mark.set(choice)) return;
    }
    event.preventDefault();
  }

  marked(mark) {
    if (this.isRestoring) return;
    this.update();
    this.on.announce(mark.announcement);
    if (this.isVote) this.send();
  }

  // --- messages of the Worker -------------------------------------------------------------------

  state(m) {
    if (m.isOpen && this.notice === "lost") this.note("");
  }

  opened({ slot }) {
    this.phase = "open";
    this.ahead = null;
    this.note("");
    this.update();
    if (!slot) this.view.fields[0].focus();
    if (this.hasEarlyText) this.editor.resend();
    this.hasEarlyText = false;
    if (this.finishesEarly) this.finish();
    this.finishesEarly = false;
  }

  /** All voices are busy: the rater is in the queue. */
  queued({ ahead }) {
    this.notice = "queued";
    this.ahead = ahead;
    this.remind(this.words.text("live_queued", { n: ahead + 1 }));
    this.update();
  }

  typed({ at, remove, insert }) {
    const field = this.view.fields[1];
    const chars = Array.from(field.value);
    chars.splice(at, remove, ...Array.from(insert));
    field.value = chars.join("");
    field.scrollTop = field.scrollHeight;
  }

  finished({ slot, ms }) {
    this.heardMs[slot] = ms;
    this.plays = slot ? [this.plays[0], this.plays[1] + 1] : [1, 0]; // discarded takes do not count as plays
    this.speaking = -1;
    this.phase = "";
    this.update();
    this.on.announce(
      `${this.words.text("live_voice", { name: NAMES[slot] })}: ${this.words.text("heard")}. ${this.left}`,
    );
    if (!slot) this.view.starts[1].focus({ preventScroll: true });
  }

  dropped({ slot, why, message, retryMs }) {
    this.speaking = -1;
    this.ahead = null;
    this.phase = "";
    const isAgain = why === "again" && ++this.late < MAX_AUTO_PLAYS;
    this.hasEarlyText = this.hasEarlyText && why === "busy";
    this.finishesEarly = this.finishesEarly && why === "busy";
    this.note(why === "again" && !isAgain ? "late" : why, message);
    this.update();
    if (this.isClosed) return;
    if (why === "busy") this.timer = setTimeout(() => this.begin(slot), retryMs ?? BUSY_MS);
    if (isAgain) this.begin(slot);
  }

  /** The server allows skipping after several discarded takes. */
  skippable() {
    this.view.skipper.hidden = false;
  }

  refused({ message }) {
    this.note("failed", message);
  }

  /** Show an error beside the send button. */
  note(why, message = "") {
    this.notice = why;
    if (why) this.remind(why === "failed" ? message || this.words.text("live_failed") : this.words.text(`live_${why}`));
  }

  // --- drawing ----------------------------------------------------------------------------------

  get left() {
    const { words } = this;
    if (this.speaking >= 0) return words.text(this.mayType ? "live_typing" : "live_listen");
    if (!this.heardMs[0]) return words.text("live_first");
    if (!this.heardMs[1]) return words.text("live_second");
    if (this.view.mark.value === null) return words.text("choose_first");
    return this.view.scores.some((score) => score.value === null) ? words.text("answer_first") : "";
  }

  update() {
    this.view.update();
    if (!this.isRestoring) this.saveDraft();
  }

  remind(text = this.left) {
    this.view.missing.textContent = text;
    this.on.announce(text);
    this.view.missing.classList.remove("flash");
    void this.view.missing.offsetWidth; // restarts the animation
    this.view.missing.classList.add("flash");
  }

  saveDraft() {
    const text = this.heardMs[0] ? this.view.fields[0].value : "";
    const scores = this.view.scores.map((score) => score.value);
    this.on.saveDraft({
      trial: this.trial.trial,
      mark: this.view.mark.value,
      scores,
      heardMs: this.heardMs,
      plays: this.plays,
      text,
      spentMs: this.responseMs,
    });
  }

  get responseMs() {
    return this.spentMs + performance.now() - this.beganMs;
  }

  send() {
    if (this.isLocked) return;
    if (this.left) return void this.remind();
    this.lock(true);
    this.on.send({
      trial: this.trial.trial,
      scores: this.view.scores.map(({ question, slot, value }) => ({ question, slot, value })),
      choices: [{ question: "preference", outcome: this.view.mark.value }],
      plays: this.trial.slots.map(({ slot }) => ({ slot, plays: this.plays[slot], heard_ms: this.heardMs[slot] })),
      response_ms: Math.round(this.responseMs),
      comment: "",
    });
  }

  /** Record the answer as missing; another rater gets the screen. */
  skip() {
    if (this.isLocked) return;
    this.lock(true);
    this.on.send({ trial: this.trial.trial, skipped: true, response_ms: Math.round(this.responseMs) });
  }

  lock(isLocked) {
    this.isLocked = isLocked;
    this.element.classList.toggle("sending", isLocked);
    for (const field of this.element.querySelectorAll("input, .answers button")) field.disabled = isLocked;
    this.update();
  }

  focus() {
    this.view.starts[this.heardMs[0] ? 1 : 0].focus({ preventScroll: true });
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.timer);
    document.removeEventListener("keydown", this.press);
    this.connection.post({ type: "stop" });
    this.connection.on = null;
  }
}
