// Checks before the test: the headphone check (six sounds, a choice among three intervals each) and the environment test
// (four pairs, a preference each).

import { Deck } from "./deck.js";
import { button, h } from "./dom.js";
import { preventSpaceClick } from "./keys.js";
import { Player } from "./player.js";

const KINDS = {
  headphones: {
    sounds: (n) => [n],
    answers: () => [1, 2, 3].map((k) => ({ label: String(k), key: String(k) })),
    question: (state) => `${state.check}_question`,
    count: "sound_of",
    help: "keys_check",
  },
  environment: {
    sounds: (n) => [2 * n, 2 * n + 1],
    answers: (words) => ["a", "b", "tie"].map((choice) => ({ label: words.text(`ab_${choice}`), key: choice[0] })),
    question: () => "environment_question",
    count: "pair_of",
    help: "keys_environment",
  },
};

export class Check {
  /** `stage` is headphones or environment; `state` the response of /mos/next. */
  constructor(rater, stage, state) {
    this.rater = rater;
    this.stage = stage;
    this.words = rater.words;
    this.steps = state.sounds;
    this.kind = KINDS[stage];
    this.responses = [];
    const { words } = this;
    this.count = h("p", { class: "count" });
    this.container = h("div", { class: "sounds" }, h("p", { class: "spin", text: words.text("loading_sounds") }));
    this.answers = this.kind.answers(words);
    this.inputs = this.answers.map(({ key }, k) =>
      h("input", { type: "radio", name: "rate-check", "aria-keyshortcuts": key, on: { change: () => this.choose(k) } }),
    );
    const options = this.inputs.map((input, k) =>
      h("label", {}, input, h("span", {}, h("b", { text: this.answers[k].label }))),
    );
    this.question = h(
      "fieldset",
      { class: "marks steps" },
      h("legend", { text: words.text(this.kind.question(state)) }),
      h("div", { class: "options" }, ...options),
    );
    this.go = button(words.text("go_on"), () => this.next(), { class: "primary", disabled: true });
    const fail = () => this.fail("the rater skipped the check: it does not work");
    this.element = h(
      "div",
      { class: "card text check" },
      h("h2", { text: words.text(`${stage}_title`), tabindex: -1 }),
      h("p", { class: "body-text", text: words.text(rater.tried === stage ? `${stage}_again` : `${stage}_text`) }),
      this.count,
      this.container,
      this.question,
      h("p", { class: "keys", text: words.text(this.kind.help) }),
      h("div", { class: "actions" }, this.go),
      h(
        "details",
        {},
        h("summary", { text: words.text("help_title") }),
        h("p", { class: "body-text", text: words.text("help_text") }),
        button(words.text("help_button"), fail),
      ),
    );
    this.press = (event) => this.key(event);
    document.addEventListener("keydown", this.press);
    document.addEventListener("keyup", preventSpaceClick);
    this.load();
  }

  async load() {
    const n = this.responses.length;
    this.count.textContent = this.words.text(this.kind.count, { n: n + 1, of: this.steps });
    this.chosen = null;
    for (const input of this.inputs) input.checked = false;
    this.update();
    try {
      const { calls, context } = this.rater;
      const buffers = await Promise.all(
        this.kind.sounds(n).map(async (k) => context.decodeAudioData(await calls.sound(`${this.stage}/${k}`))),
      );
      if (this.isClosed) return;
      const on = {
        changed: () => this.playbackChanged(),
        silent: () => this.rater.notify("warn", this.words.text("silent")),
      };
      this.deck = new Deck(context, buffers, { on });
    } catch (error) {
      if (!this.isClosed) this.fail(`sound ${n + 1} could not be played: ${error.message}`);
      return;
    }
    const isPair = this.deck.slots.length > 1;
    this.players = this.deck.slots.map(
      (_, k) => new Player(this.deck, k, isPair ? "AB"[k] : this.words.text("sound"), this.words, 1),
    );
    this.container.replaceChildren(...this.players.map((player) => player.element));
    if (n > 0) this.players[0].press.focus({ preventScroll: true });
    this.draw();
  }

  draw() {
    if (this.isClosed || !this.deck) return;
    for (const player of this.players) player.draw();
    if (this.deck.isPlaying) requestAnimationFrame(() => this.draw());
  }

  playbackChanged() {
    this.draw();
    this.update();
  }

  get unheard() {
    return this.deck ? this.deck.slots.findIndex((_, k) => !this.deck.isHeard(k, 1)) : 0;
  }

  update() {
    this.go.disabled = this.chosen === null || this.unheard >= 0;
  }

  choose(k) {
    this.chosen = k;
    this.inputs[k].checked = true;
    this.update();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (target.closest("button:not(.play), a, summary")) return;
    const answer = this.answers.findIndex(({ key }) => key === event.key.toLowerCase());
    if (event.key === " " && this.deck) {
      if (!event.repeat) this.space(target);
    } else if (answer >= 0) this.choose(answer);
    else if (event.key === "Enter" && !event.repeat) this.next();
    else return;
    event.preventDefault();
  }

  /** Space stops playback; else it plays the focused sound, or the first unheard one if that was heard. */
  space(target) {
    const focused = this.players.findIndex(({ press }) => press === target);
    const first = this.unheard >= 0 ? this.unheard : Math.max(0, focused);
    const { isPlaying, active } = this.deck;
    const isDone = isPlaying && this.unheard >= 0 && this.deck.isHeard(active, 1); // its last samples still play
    const slot = isPlaying && !isDone ? active : focused >= 0 && !this.deck.isHeard(focused, 1) ? focused : first;
    this.deck.toggle(slot);
    this.players[slot].press.focus({ preventScroll: true });
  }

  next() {
    if (this.go.disabled) return;
    this.deck.close();
    this.deck = null;
    this.responses.push(this.chosen);
    if (this.responses.length < this.steps) {
      this.container.replaceChildren(h("p", { class: "spin", text: this.words.text("loading_sounds") }));
      this.load();
      return;
    }
    this.rater.tried = this.stage; // if the check is shown again, it failed
    this.go.disabled = true;
    this.rater.pass(this.stage, { answers: this.responses });
  }

  /** Report a check that could not be played; it excludes no rater. */
  fail(error) {
    this.rater.pass(this.stage, { error: error.slice(0, 500) });
  }

  close() {
    this.isClosed = true;
    this.deck?.close();
    document.removeEventListener("keydown", this.press);
    document.removeEventListener("keyup", preventSpaceClick);
  }
}
