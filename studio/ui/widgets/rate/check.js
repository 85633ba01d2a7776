// The headphone check: six sounds of three intervals; which of them was it?

import { Deck } from "./deck.js";
import { button, h } from "./dom.js";
import { keepFromClicking } from "./keys.js";
import { Player } from "./player.js";

export class HeadphoneCheck {
  constructor(rater, shown) {
    Object.assign(this, { rater, words: rater.words, check: shown.check, sounds: shown.sounds });
    this.answers = [];
    const { words } = this;
    this.count = h("p", { class: "count" });
    this.place = h("div", { class: "sounds" }, h("p", { class: "spin", text: words.say("loading_sounds") }));
    this.inputs = [0, 1, 2].map((k) => h("input", { type: "radio", name: "rate-interval", "aria-keyshortcuts": String(k + 1), on: { change: () => this.choose(k) } }));
    const options = this.inputs.map((input, k) => h("label", {}, input, h("span", {}, h("b", { text: String(k + 1) }))));
    this.question = h("fieldset", { class: "marks steps" }, h("legend", { text: words.say(`${this.check}_question`) }), h("div", { class: "options" }, ...options));
    this.go = button(words.say("go_on"), () => this.next(), { class: "primary", disabled: true });
    const fail = () => this.fail("the rater pressed: it does not work here");
    this.element = h(
      "div",
      { class: "card text check" },
      h("h2", { text: words.say("headphones_title"), tabindex: -1 }),
      h("p", { class: "body-text", text: words.say(rater.isSecondTry ? "headphones_again" : "headphones_text") }),
      this.count,
      this.place,
      this.question,
      h("p", { class: "keys", text: words.say("keys_check") }),
      h("div", { class: "actions" }, this.go),
      h("details", {}, h("summary", { text: words.say("help_title") }), h("p", { class: "body-text", text: words.say("help_text") }), button(words.say("help_button"), fail)),
    );
    this.press = (event) => this.key(event);
    document.addEventListener("keydown", this.press);
    document.addEventListener("keyup", keepFromClicking);
    this.load();
  }

  async load() {
    const n = this.answers.length;
    this.count.textContent = this.words.say("sound_of", { n: n + 1, of: this.sounds });
    this.chosen = null;
    for (const input of this.inputs) input.checked = false;
    this.update();
    try {
      const bytes = await this.rater.calls.sound(`headphones/${n}`);
      const buffer = await this.rater.context.decodeAudioData(bytes);
      if (this.isClosed) return;
      const on = { changed: () => this.moved(), silent: () => this.rater.notify("warn", this.words.say("silent")) };
      this.deck = new Deck(this.rater.context, [buffer], { on });
    } catch (error) {
      if (!this.isClosed) this.fail(`sound ${n + 1} could not be played: ${error.message}`);
      return;
    }
    this.player = new Player(this.deck, 0, this.words.say("sound"), this.words, 1);
    this.place.replaceChildren(this.player.element);
    if (n > 0) this.player.press.focus({ preventScroll: true });
    this.draw();
  }

  draw() {
    if (this.isClosed || !this.deck) return;
    this.player.draw();
    if (this.deck.isPlaying) requestAnimationFrame(() => this.draw());
  }

  moved() {
    this.draw();
    this.update();
  }

  update() {
    this.go.disabled = this.chosen === null || !this.deck?.isHeard(0, 1);
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
    if (event.key === " " && this.deck) {
      if (!event.repeat) this.deck.toggle(0);
    } else if (/^[123]$/.test(event.key)) this.choose(Number(event.key) - 1);
    else if (event.key === "Enter" && !event.repeat) this.next();
    else return;
    event.preventDefault();
  }

  next() {
    if (this.go.disabled) return;
    this.deck.close();
    this.deck = null;
    this.answers.push(this.chosen);
    if (this.answers.length < this.sounds) {
      this.place.replaceChildren(h("p", { class: "spin", text: this.words.say("loading_sounds") }));
      this.load();
      return;
    }
    this.rater.isSecondTry = true; // when the check is shown once more, it was not passed
    this.go.disabled = true;
    this.rater.pass("headphones", { answers: this.answers });
  }

  /** A check that could not be heard excludes nobody: the server is told why. */
  fail(error) {
    this.rater.pass("headphones", { error: error.slice(0, 500) });
  }

  close() {
    this.isClosed = true;
    this.deck?.close();
    document.removeEventListener("keydown", this.press);
    document.removeEventListener("keyup", keepFromClicking);
  }
}
