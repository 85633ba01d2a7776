// The second lane of a race: the page's voice a sentence at a time, or another voice with its own settings.

import { displayName, optionControl, parseOption, voiceName } from "../../options/option_controls.js";
import { t } from "../../page/translate.js";

const PARAM = "against"; // in the address; options are against.name
const SENTENCES = [t("Word by word"), t("Sentence by sentence")];

export class Opponent {
  /** `requested` are settings of the page's address, as text; `changed()` is called when the selection changes. */
  constructor(box, requested, changed) {
    this.requested = requested;
    this.part = box.querySelector(".race-second");
    this.select = this.part.querySelector("select");
    this.details = this.part.querySelector("details");
    this.list = this.part.querySelector(".race-options");
    this.changed = changed;
    this.settingsOfPage = null;
    this.voices = [];
    this.options = {};
    this.optionNames = new Set(); // options of all voices selected so far, to remove old ones from the address
    this.select.addEventListener("change", () => this.voiceChanged(new Map()));
  }

  /** Offer the voices with the page's sample rate. `settings` are the page's. */
  setVoices(settings, rateHz) {
    this.settingsOfPage = settings;
    const fits = settings.voices.filter((voice) => voice.sample_rate_hz === rateHz);
    if (JSON.stringify(fits) !== JSON.stringify(this.voices)) {
      this.voices = fits;
      const { value } = this.select;
      const speakers = fits.flatMap((voice) => voice.speakers.map((name) => [voice, name]));
      const choices = speakers.map(
        ([voice, name]) => new Option(`${voiceName(voice)}: ${displayName(name)}`, `${voice.name}:${name}`),
      );
      this.select.replaceChildren(this.select.options[0], ...choices);
      this.select.value = this.requested.get(PARAM) ?? value;
      if (this.select.selectedIndex < 0) this.select.selectedIndex = 0;
      this.voiceChanged(this.requested);
      this.requested = new Map();
    } else if (this.names.join() !== this.lastNames) this.notify();
  }

  notify() {
    this.lastNames = this.names.join();
    this.changed();
  }

  get card() {
    return this.voices.find((voice) => this.select.value.startsWith(`${voice.name}:`));
  }

  voiceChanged(requested) {
    const { card } = this;
    const requestedValue = (option) => parseOption(option, requested.get(`${PARAM}.${option.name}`));
    const options = (card?.options ?? []).map((option) => ({
      ...option,
      default: requestedValue(option) ?? option.default,
    }));
    this.options = Object.fromEntries(options.map((option) => [option.name, option.default]));
    for (const { name } of options) this.optionNames.add(name);
    const controls = options.map((option) => {
      const plain = this.settingsOfPage.terms.plainOption(option);
      return optionControl(plain, (value) => this.set(option.name, value), "race");
    });
    if (card?.notes)
      controls.push(Object.assign(document.createElement("p"), { className: "sub", textContent: t(card.notes) }));
    this.list.replaceChildren(...controls);
    this.details.hidden = !controls.length;
    this.notify();
  }

  set(name, value) {
    this.options[name] = value;
    this.notify();
  }

  /** Entries for the page's address; null for defaults. */
  entries() {
    const defaults = new Map((this.card?.options ?? []).map((option) => [option.name, option.default]));
    const changed = (name) => (this.options[name] === defaults.get(name) ? null : this.options[name]);
    const options = [...this.optionNames].map((name) => [`${PARAM}.${name}`, changed(name)]);
    return [[PARAM, this.card ? this.select.value : null], ...options];
  }

  setLocked(isLocked) {
    this.select.disabled = isLocked;
    for (const input of this.list.querySelectorAll("input, select")) input.disabled = isLocked;
  }

  /** Settings of the second lane; null for the page's voice, a sentence at a time. */
  get settings() {
    if (!this.card) return null;
    const { seed, speed } = this.settingsOfPage.selected;
    return {
      voice: this.select.value,
      seed,
      speed,
      temperature: null,
      options: { ...this.options },
    };
  }

  /** Names of the two lanes. */
  get names() {
    if (!this.card) return SENTENCES;
    const { card, selected } = this.settingsOfPage;
    const first = `${voiceName(card)}: ${displayName(selected.voice.split(":")[1])}`;
    const second = this.select.selectedOptions[0].textContent;
    return [
      [first, ...this.describe(card, selected.options, this.options)].join(", "),
      [second, ...this.describe(this.card, this.options, selected.options)].join(", "),
    ];
  }

  /** The options of a lane that are not its voice's defaults, or not those of the other lane. */
  describe(card, options, other) {
    const { terms } = this.settingsOfPage;
    const isNamed = ({ name, default: initial }) => {
      const value = options[name];
      return value !== undefined && (value !== initial || (name in other && other[name] !== value));
    };
    return card.options
      .filter(isNamed)
      .map((option) => `${t(terms.plainOption(option).label)} ${t(String(options[option.name]))}`);
  }
}
