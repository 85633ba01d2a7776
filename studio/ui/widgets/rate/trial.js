// One screen: sounds to hear, something to answer, and a button that sends when both have been done.

import { button, h } from "./dom.js";
import { TrialKeys } from "./keys.js";
import { chosen, scored } from "./marks.js";
import { Player } from "./player.js";

/** Whether all sounds are on one page, each with a slider, and switching between them loses no time. */
export const isPage = ({ kind }) => kind === "scale" || kind === "mushra";

export class Trial {
  /** `shown` is what /mos/next said; `draft` what this screen had before a reload; `on` has `keep(draft)`, `send(answer)`. */
  constructor(shown, deck, draft, words, on) {
    Object.assign(this, { screen: shown.screen, trial: shown.trial, deck, words, on });
    this.isPair = ["ab", "similarity", "abx"].includes(this.screen.kind);
    this.isPage = isPage(this.screen);
    this.isInOrder = ["ccr", "dcr"].includes(this.screen.kind); // the first is heard out before the second may be
    const { questions, kind } = this.screen;
    const asked = this.trial.asked.length ? this.trial.asked.map((id) => questions.find((q) => q.id === id)) : questions;
    this.questions = asked.map((q) => worded(q, kind, words));
    this.spentMs = draft?.spentMs ?? 0;
    this.beganMs = performance.now();
    this.isLocked = false;
    this.isQuiet = true; // nothing is kept or announced while the draft is put back
    this.name();
    this.element = this.build();
    this.restore(draft);
    this.isQuiet = false;
    this.keys = new TrialKeys(this);
    this.update();
    this.frame = requestAnimationFrame(() => this.draw());
  }

  /** How the sounds are called: a lone one has no letter, and a reference says that it is one. */
  name() {
    const { slots } = this.trial;
    const judged = slots.filter((s) => s.place !== "reference");
    this.names = slots.map((s) =>
      s.place === "reference" ? (this.screen.kind === "abx" ? "X" : this.words.say("reference")) : judged.length === 1 ? this.words.say("sound") : "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[judged.indexOf(s)] ?? String(judged.indexOf(s) + 1),
    );
  }

  build() {
    const { screen, trial, words } = this;
    const share = screen.must_listen;
    this.players = trial.slots.map((_, k) => new Player(this.deck, k, this.names[k], words, share));
    // A reference is heard first, wherever its slot is; X stands last.
    const isFirst = (k) => trial.slots[k].place === "reference" && screen.kind !== "abx";
    this.order = [...this.players.keys()].sort((a, b) => isFirst(b) - isFirst(a));
    this.marks = this.makeMarks();
    this.missing = h("p", { class: "missing", id: "rate-missing" });
    this.sender = button(words.say("send"), () => this.send(), { class: "primary", "aria-describedby": "rate-missing" });
    this.script = trial.text ? h("blockquote", { text: trial.text }) : null;
    const sounds = h("div", { class: this.isPage ? "sounds rows" : "sounds" }, ...this.order.map((k) => this.row(k)));
    const prompt = this.isPage ? screen.prompt || this.questions[0].prompt : this.isPair ? "" : screen.prompt;
    return h(
      "div",
      { class: `trial ${screen.kind}` },
      h("div", { class: "card" }, h("p", { class: "count", tabindex: -1 }, h("b", { text: words.say("position", { n: trial.position + 1, of: trial.of }) }), trial.practice ? h("span", { class: "badge", text: words.say("practice") }) : null),
        prompt ? h("p", { class: "prompt", text: prompt }) : null,
        this.script,
        sounds),
      ...(this.isPage ? [] : [h("div", { class: "card answers" }, ...this.marks.map((m) => m.element))]),
      h("div", { class: "send-row" }, h("div", {}, this.missing, h("p", { class: "keys", text: this.keyHelp() })), this.sender),
    );
  }

  makeMarks() {
    const { screen, trial, words } = this;
    const changed = (mark) => this.marked(mark);
    if (this.isPair) return [chosen(screen.kind, screen.prompt, screen.choices, words, changed)];
    const heard = trial.slots.filter((s) => s.place !== "reference");
    const judged = screen.kind === "ccr" ? heard.slice(1) : heard; // the second, against the first
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
    if (this.isPair) return words.say("keys_pair", { letters: this.screen.choices.map((c) => ({ a: "A", b: "B", tie: "T", both_bad: "X" })[c]).join(", ") });
    const { low, high } = this.questions[0];
    if (this.isPage) return `${words.say(this.screen.kind === "mushra" ? "keys_mushra" : "keys_scale")} · ${words.say("keys_loop")}`;
    return words.say(low < 0 ? "keys_ccr" : "keys_acr", { low, high });
  }

  restore(draft) {
    for (const [place, value] of Object.entries(draft?.marks ?? {})) {
      const mark = this.marks[Number(place)];
      if (mark && value !== null) mark.set(value);
    }
  }

  marked(mark) {
    if (this.isQuiet) return;
    this.refused = mark.isRefused ? this.words.say("score_range", mark) : "";
    this.keep();
    this.update();
    if (this.refused) return this.remind();
    this.on.say(`${mark.legend ? `${mark.legend.textContent} ` : ""}${mark.said}`);
  }

  /** Sounds moved on, started or stopped. */
  heard() {
    this.update();
    if (!this.deck.isPlaying || performance.now() - (this.keptMs ?? 0) > 1000) this.keep();
  }

  keep() {
    this.keptMs = performance.now();
    this.on.keep({ trial: this.trial.trial, marks: this.marks.map((m) => m.value), sounds: this.deck.kept, spentMs: this.responseMs, ...this.more });
  }

  /** What else of a screen has to outlive a reload. */
  get more() {
    return {};
  }

  /** How much of a sound was heard for the answer. */
  heardMs(k) {
    return this.deck.heardMs(k);
  }

  get responseMs() {
    return this.spentMs + performance.now() - this.beganMs;
  }

  get unheard() {
    return this.order.filter((k) => !this.deck.isHeard(k, this.screen.must_listen));
  }

  /** Whether a sound may be played now; the page says what comes first. */
  may(k) {
    if (!this.isInOrder || this.order.slice(0, this.order.indexOf(k)).every((j) => this.deck.isHeard(j, this.screen.must_listen))) return true;
    this.remind();
    return false;
  }

  /** What is still to be done, in words; empty when the answer may go. */
  get left() {
    const { words, unheard } = this;
    if (this.refused) return this.refused;
    if (unheard.length) {
      if (this.players.length === 1) return words.say("listen_first");
      return words.say("listen_to", { names: unheard.map((k) => this.names[k]).join(", ") });
    }
    const open = this.marks.filter((m) => m.value === null);
    if (!open.length) return "";
    return this.isPage ? words.say("score_first", { names: open.map((m) => this.names[m.slot]).join(", ") }) : words.say(this.isPair ? "choose_first" : "answer_first");
  }

  update() {
    const left = this.left;
    if (this.missing.textContent !== left) this.missing.textContent = left;
    this.sender.setAttribute("aria-disabled", String(Boolean(left) || this.isLocked));
    this.element.classList.toggle("ready", !left);
    if (this.script) this.script.hidden = !this.mayRead;
  }

  /** Where the text comes after listening: once every sound was heard, however much of it has to be. */
  get mayRead() {
    return !this.screen.text_after || this.order.every((k) => this.deck.isHeard(k, this.screen.must_listen || 1));
  }

  draw() {
    if (!this.element.isConnected && this.wasShown) return;
    this.wasShown ||= this.element.isConnected;
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
      choices: this.isPair ? [{ question: this.screen.kind === "abx" ? "match" : "preference", outcome: this.marks[0].value }] : [],
      plays: this.trial.slots.map(({ slot }, k) => ({ slot, plays: this.deck.slots[k].plays, heard_ms: this.heardMs(k) })),
      response_ms: Math.round(this.responseMs),
      comment: "",
    });
  }

  remind() {
    this.on.say(this.left);
    this.missing.classList.remove("asked");
    void this.missing.offsetWidth; // restarts the animation
    this.missing.classList.add("asked");
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

/** A question with the words that its kind of test has for it in the rater's language, where the campaign says none. */
function worded(question, kind, words) {
  const name = kind === "p835" ? `p835_${question.id}` : kind;
  const values = { ccr: [-3, -2, -1, 0, 1, 2, 3], dcr: [1, 2, 3, 4, 5], p835: [1, 2, 3, 4, 5] }[kind] ?? [];
  const labels = Object.fromEntries(values.filter((v) => v >= question.low && v <= question.high).map((v) => [v, words.say(`${name}_${v}`)]));
  const bands = kind === "mushra" ? [1, 2, 3, 4, 5].map((v) => words.say(`mushra_${v}`)) : null;
  const prompt = question.prompt || (["ccr", "dcr", "mushra", "p835"].includes(kind) ? words.say(`${name}_prompt`) : "");
  return { ...question, prompt, bands, labels: { ...labels, ...question.labels } };
}
