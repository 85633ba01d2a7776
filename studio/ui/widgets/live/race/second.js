// Whom the voice of the page races against: itself a sentence at a time, or any voice with settings of its own.

import { drawn, nameOf, spokenName } from "../options/drawn.js";

const SENTENCES = ["Word by word", "Sentence by sentence"];
const written = (options) => Object.entries(options).map(([name, value]) => `${name} ${value}`).join(", ");

export class Second {
  /** `changed` is called when somebody chose otherwise. */
  constructor(box, changed) {
    this.part = box.querySelector(".race-second");
    this.select = this.part.querySelector("select");
    this.details = this.part.querySelector("details");
    this.list = this.part.querySelector(".race-options");
    this.changed = changed;
    this.first = null;
    this.voices = [];
    this.options = {};
    this.select.addEventListener("change", () => this.choose());
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
      this.select.value = value;
      if (this.select.selectedIndex < 0) this.select.selectedIndex = 0;
      this.choose();
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

  choose() {
    const { card } = this;
    this.options = Object.fromEntries((card?.options ?? []).map((option) => [option.name, option.default]));
    const controls = (card?.options ?? []).map((option) => drawn(option, (value) => this.set(option.name, value), "race"));
    if (card?.notes) controls.push(Object.assign(document.createElement("p"), { className: "sub", textContent: card.notes }));
    this.list.replaceChildren(...controls);
    this.details.hidden = !controls.length;
    this.tell();
  }

  set(name, value) {
    this.options[name] = value;
    this.tell();
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
