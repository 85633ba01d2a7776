// A live screen: voice A speaks while the rater types; voice B gets the same keystrokes. Then follow the choice and, if the
// test asks questions, the scores of each voice.

import { Player } from "../sound/player.js";
import { Editor } from "../wire/editor.js";
import { button, h } from "./dom.js";
import { CHOICE_KEYS, chosen, scored } from "./marks.js";

const BUSY_MS = 1000;
const MAX_CHARS = 2000;
const MAX_AUTO_PLAYS = 3; // automatic plays of voice B; then the rater decides
const NAMES = "AB";

/** The Worker with the socket, and the player; one per rater session. */
export class LiveConnection {
  constructor(base, server, token) {
    const url = new URL("live", server);
    url.protocol = url.protocol.replace("http", "ws");
    this.on = null; // the current screen
    this.worker = new Worker(`${base}/rate/live.worker.js`, { type: "module" });
    this.worker.onmessage = ({ data }) => this.on?.[data.type]?.(data);
    this.player = new Player(base, {
      port: (port, rateHz) => this.worker.postMessage({ type: "port", port, rateHz }, [port]),
      message: (m) => m.type === "fault" && this.on?.refused(m),
    });
    this.post({ type: "start", url: url.href, token });
  }

  post(message) {
    this.worker.postMessage(message);
  }

  close() {
    this.worker.terminate();
    this.player.close();
  }
}

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
    this.speaking = -1; // the slot that speaks or is starting
    this.spentMs = draft?.spentMs ?? 0;
    this.beganMs = performance.now();
    this.plays = draft?.plays ?? [0, 0];
    this.element = this.build();
    this.editor = new Editor(this.fields[0], { edit: (m) => this.edited(m), finish: () => this.finish() });
    if (draft) {
      this.editor.reset();
      this.fields[0].value = this.fields[1].value = draft.text ?? "";
      if (draft.mark) this.mark.set(draft.mark);
      for (const [k, value] of (draft.scores ?? []).entries()) if (value !== null) this.scores[k]?.set(value);
    }
    this.isRestoring = false;
    this.press = (event) => this.pressed(event);
    document.addEventListener("keydown", this.press);
    connection.on = this;
    this.update();
  }

  build() {
    const { trial, words } = this;
    this.isRestoring = true;
    this.fields = [0, 1].map((slot) =>
      h("textarea", {
        rows: 4,
        maxlength: this.screen.max_chars ?? MAX_CHARS,
        readonly: true,
        placeholder: slot ? "" : words.text("live_before", { button: words.text("live_begin") }),
        spellcheck: "false",
        autocapitalize: "off",
        autocomplete: "off",
        "aria-label": words.text("live_voice", { name: NAMES[slot] }),
      }),
    );
    this.states = [0, 1].map(() => h("span", { class: "state", role: "status" }));
    this.starts = [0, 1].map((slot) => button("", () => this.begin(slot), { class: slot ? "" : "primary" }));
    this.finisher = button(words.text("live_finish"), () => this.finish(), { hidden: true, class: "primary" });
    this.mark = chosen("ab", this.screen.prompt, this.screen.choices, words, () => this.marked(this.mark));
    this.scores = [0, 1].flatMap((slot) =>
      this.screen.questions.map((question) => {
        const prompt = `${words.text("live_voice", { name: NAMES[slot] })}: ${question.prompt}`;
        const mark = scored({ ...question, prompt }, null, false, words, (score) => this.marked(score));
        return Object.assign(mark, { slot, question: question.id });
      }),
    );
    this.missing = h("p", { class: "missing", id: "rate-missing" });
    this.sender = button(words.text("send"), () => this.send(), {
      class: "primary",
      "aria-describedby": "rate-missing",
    });
    this.skipper = button(words.text("live_skip"), () => this.skip(), { hidden: true });
    const place = h(
      "p",
      { class: "count", tabindex: -1 },
      h("b", { text: words.place(trial) }),
      trial.practice ? h("span", { class: "badge", text: words.text("practice") }) : null,
    );
    const text = trial.text
      ? [h("p", { class: "prompt", text: words.text("live_text") }), h("blockquote", { text: trial.text })]
      : [h("p", { class: "prompt", text: words.text("live_own") })];
    return h(
      "div",
      { class: "trial typing" },
      h("div", { class: "card" }, place, ...text, ...[0, 1].map((slot) => this.voice(slot))),
      h("div", { class: "card answers" }, this.mark.element, ...this.scores.map((score) => score.element)),
      h(
        "div",
        { class: "send-row" },
        h("div", {}, this.missing, h("p", { class: "keys", text: words.text("keys_live") })),
        this.skipper,
        this.sender,
      ),
    );
  }

  voice(slot) {
    const name = h("span", { class: "name", text: this.words.text("live_voice", { name: NAMES[slot] }) });
    const actions = h("div", { class: "actions" }, this.starts[slot], ...(slot ? [] : [this.finisher]));
    return h(
      "section",
      { class: "voice", data: { slot } },
      h("div", { class: "voice-head" }, name, this.states[slot]),
      this.fields[slot],
      actions,
    );
  }

  // --- input ------------------------------------------------------------------------------------

  get isTyping() {
    return this.phase === "open" && this.speaking === 0;
  }

  /** Before the voice is ready, and not in the queue: typed text is sent once it is. */
  get acceptsEarlyText() {
    return this.phase === "starting" && this.speaking === 0 && this.ahead === null;
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
    this.fields[1].value = "";
    if (!slot && !this.hasEarlyText) this.editor.reset();
    this.connection.post({ type: "begin", trial: this.trial.trial, slot, rateHz: this.screen.rate_hz });
    this.update();
    if (!slot) this.fields[0].focus(); // inside the click handler: mobile browsers open no keyboard otherwise
  }

  finish() {
    if (!this.isTyping) return;
    if (!this.fields[0].value.trim()) return void this.remind(this.words.text("live_nothing"));
    this.phase = "ending";
    this.connection.post({ type: "end" });
    this.update();
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || this.isLocked) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (
      !this.element.isConnected ||
      document.querySelector("dialog[open]") ||
      target.closest("textarea:not([readonly]), button, a, summary")
    )
      return;
    if (event.key === "Enter") this.send();
    else if (this.mark.element.disabled) {
      if (event.key.length === 1 && event.key !== " ") this.remind(); // typed too early, or a choice before both voices were heard
      return;
    } else {
      const choice = Object.keys(CHOICE_KEYS).find((name) => CHOICE_KEYS[name] === event.key.toLowerCase());
      if (!choice || !this.mark.set(choice)) return;
    }
    event.preventDefault();
  }

  marked(mark) {
    if (this.isRestoring) return;
    this.update();
    this.on.announce(mark.announcement);
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
    if (!slot) this.fields[0].focus();
    if (this.hasEarlyText) this.editor.resend();
    this.hasEarlyText = false;
  }

  /** All voices are busy: the rater is in the queue. */
  queued({ ahead }) {
    this.notice = "queued";
    this.ahead = ahead;
    this.remind(this.words.text("live_queued", { n: ahead + 1 }));
    this.update();
  }

  typed({ at, remove, insert }) {
    const field = this.fields[1];
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
    if (!slot) this.starts[1].focus({ preventScroll: true });
  }

  dropped({ slot, why, message, retryMs }) {
    this.speaking = -1;
    this.ahead = null;
    this.phase = "";
    const isAgain = why === "again" && ++this.late < MAX_AUTO_PLAYS;
    this.hasEarlyText = this.hasEarlyText && why === "busy";
    this.note(why === "again" && !isAgain ? "late" : why, message);
    this.update();
    if (this.isClosed) return;
    if (why === "busy") this.timer = setTimeout(() => this.begin(slot), retryMs ?? BUSY_MS);
    if (isAgain) this.begin(slot);
  }

  /** The server allows skipping after several discarded takes. */
  skippable() {
    this.skipper.hidden = false;
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
    if (this.speaking >= 0) return words.text(this.isTyping ? "live_typing" : "live_listen");
    if (!this.heardMs[0]) return words.text("live_first");
    if (!this.heardMs[1]) return words.text("live_second");
    if (this.mark.value === null) return words.text("choose_first");
    return this.scores.some((score) => score.value === null) ? words.text("answer_first") : "";
  }

  update() {
    const { words } = this;
    const isFree = this.speaking < 0 && !this.isLocked;
    for (const slot of [0, 1]) {
      const speaks = this.speaking === slot;
      const state = speaks
        ? this.phase === "starting"
          ? "live_wait"
          : "live_speaks"
        : this.heardMs[slot]
          ? "heard"
          : "";
      const text =
        state === "live_wait" && this.ahead !== null
          ? words.text("live_place", { n: this.ahead + 1 })
          : state && words.text(state);
      if (this.states[slot].textContent !== text) this.states[slot].textContent = text;
      this.states[slot].dataset.state = state;
      const label = slot
        ? this.heardMs[1]
          ? "live_repeat"
          : "live_hear"
        : this.heardMs[0]
          ? "live_anew"
          : "live_begin";
      this.starts[slot].firstElementChild.textContent = words.text(label);
      this.starts[slot].disabled = !isFree || (slot === 1 && !this.heardMs[0]);
      this.starts[slot].classList.toggle("primary", !this.heardMs[slot] && (slot === 0 || this.heardMs[0] > 0));
    }
    this.starts[0].hidden = this.speaking === 0 && this.phase !== "starting";
    this.finisher.hidden = !this.starts[0].hidden;
    this.finisher.disabled = !this.isTyping;
    this.fields[0].readOnly = !this.isTyping && !this.acceptsEarlyText;
    const isHeard = this.speaking < 0 && this.heardMs.every(Boolean); // a choice compares both voices
    this.mark.element.disabled = !isHeard;
    for (const score of this.scores) score.element.disabled = this.speaking === score.slot || !this.heardMs[score.slot];
    const { left } = this;
    if (!this.notice && this.missing.textContent !== left) this.missing.textContent = left;
    this.sender.setAttribute("aria-disabled", String(Boolean(left) || Boolean(this.isLocked)));
    this.skipper.disabled = !isFree;
    this.element.classList.toggle("ready", !left);
    if (!this.isRestoring) this.saveDraft();
  }

  remind(text = this.left) {
    this.missing.textContent = text;
    this.on.announce(text);
    this.missing.classList.remove("asked");
    void this.missing.offsetWidth; // restarts the animation
    this.missing.classList.add("asked");
  }

  saveDraft() {
    const text = this.heardMs[0] ? this.fields[0].value : "";
    const scores = this.scores.map((score) => score.value);
    this.on.saveDraft({
      trial: this.trial.trial,
      mark: this.mark.value,
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
      scores: this.scores.map(({ question, slot, value }) => ({ question, slot, value })),
      choices: [{ question: "preference", outcome: this.mark.value }],
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
    for (const field of this.element.querySelectorAll("input")) field.disabled = isLocked;
    this.update();
  }

  focus() {
    this.starts[this.heardMs[0] ? 1 : 0].focus({ preventScroll: true });
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.timer);
    document.removeEventListener("keydown", this.press);
    this.connection.post({ type: "stop" });
    this.connection.on = null;
  }
}
