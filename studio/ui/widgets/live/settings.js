// Voice, speaker, options of the family, speed, temperature and seed, built from the voices' cards.

import { displayName, optionControl, optionValue, parseOption, voiceName } from "../options/option_controls.js";
import { decimal, language, t } from "../page/translate.js";
import { Manner } from "./voices/manner.js";
import { VoiceCards } from "./voices/voice_cards.js";

const NEXT_PHRASE = t("Applies from the next phrase.");
const NEXT_TEXT = {
  voice: t("The voice changes with the next text."),
  speaker: t("The speaker changes with the next text."),
  seed: t("The seed changes with the next text."),
  speed: t("The speed changes with the next text."),
  pace: t("The pace changes with the next text."),
};
const SEND_AFTER_MS = 120;

export class Settings {
  /**
   * @param root of the page
   * @param requested settings by name, as text
   * @param terms plain names of options, and tips
   * @param on changed(settings, rateHz); set(), after a change by the user; isActive(), whether a text is being spoken
   */
  constructor(root, requested, terms, on) {
    this.requested = requested;
    this.terms = terms;
    this.root = root.querySelector(".settings");
    const choice = root.querySelector(".voices");
    this.note = root.querySelector(".settings-note");
    this.voiceNote = root.querySelector(".voice-note"); // in the card of the voice
    this.on = on;
    this.voices = [];
    this.options = {};
    this.temperature = null;
    const input = (name) => this.root.querySelector(`[data-set="${name}"]`);
    this.speaker = choice.querySelector('[data-set="speaker"]');
    const [list, speakers] = [".voice-list", ".speaker-row"].map((part) => choice.querySelector(part));
    this.voice = new VoiceCards(list, speakers, terms, () => this.voiceChanged());
    this.temperatureInput = input("temperature");
    this.seed = input("seed");
    this.limits = this.root.querySelector(".voice-cannot");
    this.speaker.addEventListener("change", () => this.showPending("speaker"));
    terms.addTips(root);
    this.manner = new Manner(this.root.querySelector(".manner"), terms, {
      speed: () => this.showPending("speed"),
      temperature: (value) => this.setTemperature(value),
    });
    this.activeSeed = 0;
    this.seedError = this.root.querySelector("#live-seed-error");
    for (const type of ["change", "blur"]) this.seed.addEventListener(type, () => this.applySeed());
    this.temperatureInput.addEventListener("input", () => this.setTemperature(Number(this.temperatureInput.value)));
  }

  /** Set the server's voices. */
  setVoices(voices) {
    if (JSON.stringify(voices) === JSON.stringify(this.voices)) return this.send();
    this.voices = voices;
    this.voice.setVoices(voices);
    const { requested } = this;
    this.voice.value = requested.get("voice");
    this.voiceChanged(true);
    this.note.textContent = this.apply(requested).join(" ");
    return this.send();
  }

  get card() {
    return this.voices.find((v) => v.name === this.voice.value) ?? this.voices[0];
  }

  voiceChanged(isFirst = false) {
    const { card } = this;
    if (!card) return;
    this.speaker.replaceChildren(...card.speakers.map((name) => new Option(displayName(name), name)));
    this.limits.textContent = t(card.notes);
    this.speaker.disabled = card.speakers.length < 2;
    this.temperature = null;
    this.showTemperature();
    this.options = Object.fromEntries(card.options.map((o) => [o.name, o.default]));
    this.showOptions(".options", ({ isPlain }) => isPlain);
    this.showOptions(".advanced-options", ({ isPlain }) => !isPlain);
    if (!isFirst) this.showPending("voice");
  }

  /** Controls of the options that fit, in an element of the page. */
  showOptions(part, fits) {
    const box = this.root.querySelector(part);
    const options = this.card.options.map((option) => this.terms.plainOption(option)).filter(fits);
    box.replaceChildren(...options.map((option) => optionControl(option, (value) => this.set(option, value))));
    this.terms.addTips(box);
  }

  /** The name of an option as the page shows it. */
  labelOf(name) {
    const option = this.card.options.find((one) => one.name === name);
    return (option && t(this.terms.plainOption(option).label)) ?? name;
  }

  /** Change the temperature, null for the voice's own. */
  setTemperature(temperature) {
    this.temperature = temperature ?? this.card.temperature; // null would leave that of the current text
    this.showTemperature();
    this.changed(NEXT_PHRASE);
  }

  showTemperature() {
    const value = this.temperature ?? this.card.temperature;
    this.temperatureInput.value = value;
    this.manner.show(this.card, this.temperature);
    this.temperatureInput.parentElement.querySelector("output").textContent =
      value === 0 ? t("always the same") : decimal(value, 2);
  }

  set(option, value) {
    this.options[option.name] = value;
    let note = NEXT_PHRASE;
    const { m, n } = this.options;
    if (m !== undefined && n !== undefined && n > m) {
      this.setOption("n", m);
      note =
        option.name === "m"
          ? t("Words per step was lowered to {m} too: it cannot be more than the look-ahead.", { m })
          : t("Words per step cannot be more than the look-ahead, which is {m}. Raise the look-ahead first.", { m });
    }
    this.changed(note);
  }

  setOption(name, value) {
    this.options[name] = value;
    const inputs = this.root.querySelectorAll(`[data-option="${name}"]`);
    for (const input of inputs) {
      if (input.type === "radio") input.checked = input.value === value;
      else input.value = value;
    }
    const output = inputs[0].parentElement.querySelector("output");
    if (output) output.textContent = optionValue(value);
  }

  /** Clear the note: a new text uses all settings. */
  clearNote() {
    this.note.textContent = this.voiceNote.textContent = "";
  }

  /** Apply requested settings; returns a sentence for each one that cannot be applied. */
  apply(requested) {
    const { card } = this;
    const voice = voiceName(card);
    const errors = [];
    const request = (name, accept, allowed) => {
      const value = requested.get(name);
      if (value && !accept(value))
        errors.push(t("The address asks for {name} {value}: {allowed}.", { name, value: value.slice(0, 40), allowed }));
    };
    request("voice", (name) => name === card.name, t("this server has no such voice, and uses {voice}", { voice }));
    const setSpeaker = (name) => {
      const isValid = card.speakers.includes(name);
      if (isValid) this.speaker.value = name;
      return isValid;
    };
    request("speaker", setSpeaker, t("{voice} has {speakers}", { voice, speakers: card.speakers.join(", ") }));
    for (const option of card.options) {
      const setValue = (text) => {
        const value = parseOption(option, text);
        if (value !== undefined) this.setOption(option.name, value);
        return value !== undefined;
      };
      const { choices, low, high } = option;
      request(
        option.name,
        setValue,
        choices.length
          ? t("allowed are {choices}", { choices: new Intl.ListFormat(language).format(choices) })
          : t("it must be from {low} to {high}", { low, high }),
      );
    }
    for (const name of this.otherOptions) request(name, () => false, t("{voice} has no such setting", { voice }));
    const { m, n } = this.options;
    if (n > m) {
      this.setOption("n", m);
      errors.push(
        t("The address asks for n {n} with m {m}: words per step cannot be more than the look-ahead, so it is {m}.", {
          n,
          m,
        }),
      );
    }
    const setTemperature = (text) => {
      const value = Number(text);
      const isValid = value >= 0 && value <= Number(this.temperatureInput.max);
      if (isValid) this.temperature = value;
      if (isValid) this.showTemperature();
      return isValid;
    };
    request(
      "temperature",
      setTemperature,
      t("it must be from {low} to {high}", { low: 0, high: this.temperatureInput.max }),
    );
    request("speed", (text) => this.manner.request(text), this.manner.allowed);
    const setSeed = (text) => {
      const isValid = /^\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text));
      if (isValid) this.seed.value = this.activeSeed = Number(text);
      return isValid;
    };
    request("seed", setSeed, t("it must be a whole number from 0 to {high}", { high: this.seed.max }));
    return errors;
  }

  /** Names of options that only other voices have. */
  get otherOptions() {
    const own = new Set(this.card.options.map((option) => option.name));
    return new Set(
      this.voices.flatMap((voice) => voice.options.map((option) => option.name)).filter((name) => !own.has(name)),
    );
  }

  /** A Map of all settings, null for defaults; null before the voices are known. */
  entries() {
    const { card } = this;
    if (!card) return null;
    const unless = (value, initial) => (value === initial ? null : value);
    const own = card.options.map((option) => [option.name, unless(this.options[option.name], option.default)]);
    return new Map([
      ["voice", unless(card.name, this.voices[0].name)],
      ["speaker", unless(this.speaker.value, card.speakers[0])],
      ["seed", unless(this.activeSeed, 0)],
      ["temperature", unless(this.temperature, card.temperature)],
      ["speed", unless(this.manner.speed, 1)],
      ...own,
      ...[...this.otherOptions].map((name) => [name, null]),
    ]);
  }

  changed(note) {
    this.note.textContent = note;
    this.on.set();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), SEND_AFTER_MS);
  }

  /** A change that does not affect the current text; says so if there is one. */
  showPending(what) {
    const note = this.on.isActive() ? NEXT_TEXT[what] : "";
    const isOfVoice = what !== "seed" && what !== "speed";
    if (isOfVoice) this.voiceNote.textContent = note;
    this.changed(isOfVoice ? "" : note);
  }

  /** Send a scheduled change now, before a text begins. */
  flush() {
    if (this.timer) this.send();
  }

  send() {
    clearTimeout(this.timer);
    this.timer = null;
    if (!this.card) return;
    this.on.changed(this.selected, this.card.sample_rate_hz);
  }

  get selected() {
    const { card, temperature } = this;
    const voice = `${card.name}:${this.speaker.value}`;
    const { speed } = this.manner;
    return { voice, seed: this.activeSeed, temperature, speed, options: { ...this.options } };
  }

  reseed() {
    this.seed.value = Math.floor(Math.random() * 100000);
    this.applySeed();
  }

  /** Apply the typed seed, or show what is allowed. */
  applySeed() {
    const { seed, activeSeed } = this;
    const isValid = seed.value !== "" && seed.validity.valid; // text that is not a number has an empty value
    seed.setAttribute("aria-invalid", String(!isValid));
    this.seedError.textContent = isValid
      ? ""
      : t("A seed is a whole number from {low} to {high}. The seed is still {seed}.", {
          low: seed.min,
          high: seed.max,
          seed: activeSeed,
        });
    if (!isValid) return this.clearNote();
    seed.value = this.activeSeed = Number(seed.value);
    if (this.activeSeed !== activeSeed) this.showPending("seed");
  }

  /** Show the options in use, as reported by the server. */
  showActive(options) {
    const settings = Object.entries(options).map(([name, value]) => `${this.labelOf(name)} ${value}`);
    this.note.textContent = t("In use from here on: {settings}.", { settings: settings.join(", ") });
  }
}
