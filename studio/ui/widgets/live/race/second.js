// Whom the voice of the page races against: itself a sentence at a time, or any voice with settings of its own.

import { asked, drawn, nameOf, spokenName } from "../../options/drawn.js";

const AGAINST = "against"; // its name in the address; its options are against.name
const SENTENCES = ["Word by word", "Sentence by sentence"];
const written = (options) => Object.entries(options).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ");

export class Second {
  /** `changed` is called when somebody chose otherwise; `wanted` are settings of the page's address, as text. */
  constructor(box, wanted, changed) {
    this.wanted = wanted;
    this.part = box.querySelector(".race-second");
    this.select = this.part.querySelector("select");
    this.details = this.part.querySelector("details");
    this.list = this.part.querySelector(".race-options");
    this.changed = changed;
    this.first = null;
    this.voices = [];
    this.options = {};
    this.named = new Set(); // options of every voice that was chosen: the address forgets those of the one before
    this.select.addEventListener("change", () => this.choose(new Map()));
  }

  /** Voices that can be heard after the page's own: those of its rate. `settings` are the page's. */
  offer(settings, rateHz) {
    this.first = settings;
    const fits = settings.voices.filter((voice) => voice.sample_rate_hz === rateHz);
    if (JSON.stringify(fits) !== JSON.stringify(this.voices)) {
      this.voices = fits;
      const { value } = this.select;
      const own = fits.flatMap((voice) => voice.speakers.map((name) => new Option(`${nameOf(voice)}: ${spokenName(name)}`, `${voice.name}:${name}`)));
      this.select.replaceChildren(this.select.options[0], ...own);
      this.select.value = this.wanted.get(AGAINST) ?? value;
      if (this.select.selectedIndex < 0) this.select.selectedIndex = 0;
      this.choose(this.wanted);
      this.wanted = new Map();
    } else if (this.names.join() !== this.said) this.tell();
  }

  /** Somebody chose otherwise. */
  tell() {
    this.said = this.names.join();
    this.changed();
  }

  get card() {
    return this.voices.find((voice) => this.select.value.startsWith(`${voice.name}:`));
  }

  choose(wanted) {
    const { card } = this;
    const options = (card?.options ?? []).map((option) => ({ ...option, default: asked(option, wanted.get(`${AGAINST}.${option.name}`)) ?? option.default }));
    this.options = Object.fromEntries(options.map((option) => [option.name, option.default]));
    for (const { name } of options) this.named.add(name);
    const controls = options.map((option) => drawn(option, (value) => this.set(option.name, value), "race"));
    if (card?.notes) controls.push(Object.assign(document.createElement("p"), { className: "sub", textContent: card.notes }));
    this.list.replaceChildren(...controls);
    this.details.hidden = !controls.length;
    this.tell();
  }

  set(name, value) {
    this.options[name] = value;
    this.tell();
  }

  /** What the address keeps, by name: null where it is as it was at the start. */
  entries() {
    const usual = new Map((this.card?.options ?? []).map((option) => [option.name, option.default]));
    const own = [...this.named].map((name) => [`${AGAINST}.${name}`, this.options[name] === usual.get(name) ? null : this.options[name]]);
    return [[AGAINST, this.card ? this.select.value : null], ...own];
  }

  freeze(isFrozen) {
    this.select.disabled = isFrozen;
    for (const input of this.list.querySelectorAll("input, select")) input.disabled = isFrozen;
  }

  /** What the second lane is opened with; null for the page's own voice, a sentence at a time. */
  get settings() {
    if (!this.card) return null;
    return { voice: this.select.value, seed: this.first.chosen.seed, temperature: null, options: { ...this.options } };
  }

  /** What the two lanes are called. */
  get names() {
    if (!this.card) return SENTENCES;
    const { voice, options } = this.first.chosen;
    const [mine, speaker] = [this.first.card, voice.split(":")[1]];
    const own = [`${nameOf(mine)}: ${spokenName(speaker)}`, this.select.selectedOptions[0].textContent];
    return [`${own[0]}, ${written(options)}`, `${own[1]}, ${written(this.options)}`];
  }
}
