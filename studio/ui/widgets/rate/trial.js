// One screen: sounds, questions, and a send button that is enabled once both are complete.

import { button, h } from "./dom.js";
import { TrialKeys } from "./keys.js";
import { chosen, scored } from "./marks.js";
import { Player } from "./player.js";

/** Whether all sounds are on one page, each with a slider, with seamless switching. */
export const isPage = ({ kind }) => kind === "scale" || kind === "mushra";

export class Trial {
  /** `state` is the response of /mos/next; `draft` the saved input of this screen; `on` has `saveDraft(draft)`, `send(answer)`. */
  constructor(state, deck, draft, words, on) {
    this.screen = state.screen;
    this.trial = state.trial;
    this.deck = deck;
    this.words = words;
    this.on = on;
    this.isPair = ["ab", "similarity", "abx"].includes(this.screen.kind);
    this.isPage = isPage(this.screen);
    this.isInOrder = ["ccr", "dcr"].includes(this.screen.kind); // the second sound unlocks after the first
    const { questions, kind } = this.screen;
    const selected = this.trial.asked.length
      ? this.trial.asked.map((id) => questions.find((q) => q.id === id))
      : questions;
    this.questions = selected.map((q) => withLabels(q, kind, words));
    this.spentMs = draft?.spentMs ?? 0;
    this.beganMs = performance.now();
    this.isLocked = false;
    this.wasAttached = false;
    this.isRestoring = true; // no saves or announcements while the draft is restored
    this.nameSounds();
    this.element = this.build();
    this.restore(draft);
    this.isRestoring = false;
    this.keys = new TrialKeys(this);
    this.update();
    this.frame = requestAnimationFrame(() => this.draw());
  }

  /** Names of the sounds: letters, unless there is only one; references are labelled. */
  nameSounds() {
    const { slots } = this.trial;
    const judged = slots.filter((s) => s.place !== "reference");
    this.names = slots.map((s) =>
      s.place === "reference"
        ? this.screen.kind === "abx"
          ? "X"
          : this.words.text("reference")
        : judged.length === 1
          ? this.words.text("sound")
          : ("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[judged.indexOf(s)] ?? String(judged.indexOf(s) + 1)),
    );
  }

  build() {
    const { screen, trial, words } = this;
    const share = screen.must_listen;
    this.players = trial.slots.map((_, k) => new Player(this.deck, k, this.names[k], words, share));
    // A reference comes first, whatever its slot; X comes last.
    const isFirst = (k) => trial.slots[k].place === "reference" && screen.kind !== "abx";
    this.order = [...this.players.keys()].sort((a, b) => Number(isFirst(b)) - Number(isFirst(a)));
    this.marks = this.makeMarks();
    this.missing = h("p", { class: "missing", id: "rate-missing" });
    this.sender = button(words.text("send"), () => this.send(), {
      class: "primary",
      "aria-describedby": "rate-missing",
    });
    this.script = trial.text ? h("blockquote", { text: trial.text }) : null;
    const sounds = h("div", { class: this.isPage ? "sounds rows" : "sounds" }, ...this.order.map((k) => this.row(k)));
    const prompt = this.isPage ? screen.prompt || this.questions[0].prompt : this.isPair ? "" : screen.prompt;
    return h(
      "div",
      { class: `trial ${screen.kind}` },
      h(
        "div",
        { class: "card" },
        h(
          "p",
          { class: "count", tabindex: -1 },
          h("b", { text: words.text("position", { n: trial.position + 1, of: trial.of }) }),
          trial.practice ? h("span", { class: "badge", text: words.text("practice") }) : null,
        ),
        prompt ? h("p", { class: "prompt", text: prompt }) : null,
        this.script,
        sounds,
      ),
      ...(this.isPage ? [] : [h("div", { class: "card answers" }, ...this.marks.map((m) => m.element))]),
      h(
        "div",
        { class: "send-row" },
        h("div", {}, this.missing, h("p", { class: "keys", text: this.keyHelp() })),
        this.sender,
      ),
    );
  }

  makeMarks() {
    const { screen, trial, words } = this;
    const changed = (mark) => this.marked(mark);
    if (this.isPair) return [chosen(screen.kind, screen.prompt, screen.choices, words, changed)];
    const candidates = trial.slots.filter((s) => s.place !== "reference");
    const judged = screen.kind === "ccr" ? candidates.slice(1) : candidates; // only the second sound is scored
    return judged.flatMap(({ slot }) =>
      this.questions.map((question) => {
        const mark = scored(question, judged.length > 1 ? this.names[slot] : null, this.isPage, words, changed);
        return Object.assign(mark, { slot, question: question.id, low: question.low, high: question.high });
      }),
    );
  }

  row(k) {
    const mark = this.isPage && this.marks.find((m) => m.slot === this.trial.slots[k].slot);
    if (!this.isPage) return this.players[k].element;
    return h("div", { class: mark ? "row" : "row open" }, this.players[k].element, mark ? mark.element : null);
  }

  keyHelp() {
    const { words } = this;
    if (this.isPair)
      return words.text("keys_pair", {
        letters: this.screen.choices.map((c) => ({ a: "A", b: "B", tie: "T", both_bad: "X" })[c]).join(", "),
      });
    const { low, high } = this.questions[0];
    if (this.isPage)
      return `${words.text(this.screen.kind === "mushra" ? "keys_mushra" : "keys_scale")} · ${words.text("keys_loop")}`;
    return words.text(low < 0 ? "keys_ccr" : "keys_acr", { low, high });
  }

  restore(draft) {
    for (const [index, value] of Object.entries(draft?.marks ?? {})) {
      const mark = this.marks[Number(index)];
      if (mark && value !== null) mark.set(value);
    }
  }

  marked(mark) {
    if (this.isRestoring) return;
    this.refused = mark.isRefused ? this.words.text("score_range", mark) : "";
    this.saveDraft();
    this.update();
    if (this.refused) return this.remind();
    this.on.announce(`${mark.legend ? `${mark.legend.textContent} ` : ""}${mark.announcement}`);
  }

  playbackChanged() {
    this.update();
    if (!this.deck.isPlaying || performance.now() - (this.savedMs ?? 0) > 1000) this.saveDraft();
  }

  saveDraft() {
    this.savedMs = performance.now();
    this.on.saveDraft({
      trial: this.trial.trial,
      marks: this.marks.map((m) => m.value),
      sounds: this.deck.playback,
      spentMs: this.responseMs,
      ...this.extraDraft,
    });
  }

  /** Further draft fields of a subclass. */
  get extraDraft() {
    return {};
  }

  /** Milliseconds of a sound that were played. */
  heardMs(k) {
    return this.deck.heardMs(k);
  }

  get responseMs() {
    return this.spentMs + performance.now() - this.beganMs;
  }

  get unheard() {
    return this.order.filter((k) => !this.deck.isHeard(k, this.screen.must_listen));
  }

  /** Whether a sound may be played now; else shows what comes first. */
  mayPlay(k) {
    if (
      !this.isInOrder ||
      this.order.slice(0, this.order.indexOf(k)).every((j) => this.deck.isHeard(j, this.screen.must_listen))
    )
      return true;
    this.remind();
    return false;
  }

  /** What is still missing, as a message; empty if the answer can be sent. */
  get left() {
    const { words, unheard } = this;
    if (this.refused) return this.refused;
    if (unheard.length) {
      if (this.players.length === 1) return words.text("listen_first");
      return words.text("listen_to", { names: unheard.map((k) => this.names[k]).join(", ") });
    }
    const open = this.marks.filter((m) => m.value === null);
    if (!open.length) return "";
    return this.isPage
      ? words.text("score_first", { names: open.map((m) => this.names[m.slot]).join(", ") })
      : words.text(this.isPair ? "choose_first" : "answer_first");
  }

  update() {
    const left = this.left;
    if (this.missing.textContent !== left) this.missing.textContent = left;
    this.sender.setAttribute("aria-disabled", String(Boolean(left) || this.isLocked));
    this.element.classList.toggle("ready", !left);
    if (this.script) this.script.hidden = !this.mayRead;
  }

  /** With `text_after` the text is shown only after every sound was played. */
  get mayRead() {
    return !this.screen.text_after || this.order.every((k) => this.deck.isHeard(k, this.screen.must_listen || 1));
  }

  draw() {
    if (!this.element.isConnected && this.wasAttached) return;
    this.wasAttached ||= this.element.isConnected;
    for (const player of this.players) player.draw();
    this.frame = requestAnimationFrame(() => this.draw());
  }

  send() {
    if (this.isLocked) return;
    if (this.left) return void this.remind();
    this.deck.pause();
    this.lock(true);
    this.on.send({
      trial: this.trial.trial,
      scores: this.isPair ? [] : this.marks.map((m) => ({ question: m.question, slot: m.slot, value: m.value })),
      choices: this.isPair
        ? [{ question: this.screen.kind === "abx" ? "match" : "preference", outcome: this.marks[0].value }]
        : [],
      plays: this.trial.slots.map(({ slot }, k) => ({
        slot,
        plays: this.deck.slots[k].plays,
        heard_ms: this.heardMs(k),
      })),
      response_ms: Math.round(this.responseMs),
      comment: "",
    });
  }

  remind() {
    this.on.announce(this.left);
    this.missing.classList.remove("flash");
    void this.missing.offsetWidth; // restarts the animation
    this.missing.classList.add("flash");
  }

  lock(isLocked) {
    this.isLocked = isLocked;
    this.element.classList.toggle("sending", isLocked);
    for (const field of this.element.querySelectorAll("input, .play")) field.disabled = isLocked;
    this.update();
  }

  focus() {
    this.players[this.order[0]].press.focus({ preventScroll: true });
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.keys.close();
    this.deck.close();
  }
}

/** A question with default texts of its kind in the rater's language, where the campaign sets none. */
function withLabels(question, kind, words) {
  const name = kind === "p835" ? `p835_${question.id}` : kind;
  const values = { ccr: [-3, -2, -1, 0, 1, 2, 3], dcr: [1, 2, 3, 4, 5], p835: [1, 2, 3, 4, 5] }[kind] ?? [];
  const labels = Object.fromEntries(
    values.filter((v) => v >= question.low && v <= question.high).map((v) => [v, words.text(`${name}_${v}`)]),
  );
  const bands = kind === "mushra" ? [1, 2, 3, 4, 5].map((v) => words.text(`mushra_${v}`)) : null;
  const prompt =
    question.prompt || (["ccr", "dcr", "mushra", "p835"].includes(kind) ? words.text(`${name}_prompt`) : "");
  return { ...question, prompt, bands, labels: { ...labels, ...question.labels } };
}
