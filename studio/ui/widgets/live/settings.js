// Voice, speaker, the family's options, temperature and seed: drawn from what the voices' cards say.

import { asked, drawn, nameOf, spokenName } from "../options/drawn.js";

const SEND_AFTER_MS = 120;

export class Settings {
  /**
   * `on` has changed(settings, rateHz), set(): somebody moved something, isActive(): whether a text is being said;
   * `wanted` are settings by name, as text.
   */
  constructor(root, wanted, on) {
    this.wanted = wanted;
    this.root = root.querySelector(".settings");
    this.note = root.querySelector(".settings-note");
    this.on = on;
    this.voices = [];
    this.options = {};
    this.temperature = null;
    const set = (name) => this.root.querySelector(`[data-set="${name}"]`);
    [this.voice, this.speaker, this.heat, this.seed] = ["voice", "speaker", "temperature", "seed"].map(set);
    this.voice.addEventListener("change", () => this.choose());
    this.about = this.root.querySelector(".voice-about");
    this.cannot = this.root.querySelector(".voice-cannot");
    this.speaker.addEventListener("change", () => this.changedNext("speaker"));
    this.seedInForce = 0;
    this.seedSaid = this.root.querySelector("#live-seed-said");
    for (const type of ["change", "blur"]) this.seed.addEventListener(type, () => this.takeSeed());
    this.heat.addEventListener("input", () => {
      this.temperature = Number(this.heat.value);
      this.showHeat();
      this.changed("In force from the next segment on.");
    });
  }

  /** The server's voices. */
  offer(voices) {
    if (JSON.stringify(voices) === JSON.stringify(this.voices)) return this.send();
    this.voices = voices;
    this.voice.replaceChildren(...voices.map((v) => new Option(nameOf(v), v.name)));
    const { wanted } = this;
    if (voices.some((v) => v.name === wanted.get("voice"))) this.voice.value = wanted.get("voice");
    this.choose(true);
    this.note.textContent = this.take(wanted).join(" ");
    return this.send();
  }

  get card() {
    return this.voices.find((v) => v.name === this.voice.value) ?? this.voices[0];
  }

  choose(first) {
    const { card } = this;
    if (!card) return;
    this.speaker.replaceChildren(...card.speakers.map((name) => new Option(spokenName(name), name)));
    this.about.textContent = card.title?.includes(": ") ? card.title.slice(card.title.indexOf(": ") + 2) : "";
    this.cannot.textContent = card.notes;
    this.speaker.disabled = card.speakers.length < 2;
    this.temperature = null;
    this.heat.value = card.temperature;
    this.showHeat();
    this.options = Object.fromEntries(card.options.map((o) => [o.name, o.default]));
    this.root.querySelector(".options").replaceChildren(...card.options.map((o) => this.draw(o)));
    if (!first) this.changedNext("voice");
  }

  showHeat() {
    const value = Number(this.heat.value);
    this.heat.parentElement.querySelector("output").textContent = value === 0 ? "greedy" : value.toFixed(2);
  }

  draw(option) {
    return drawn(option, (value) => this.set(option, value));
  }

  set(option, value) {
    this.options[option.name] = value;
    let note = "In force from the next segment on.";
    const { m, n } = this.options;
    if (m !== undefined && n !== undefined && n > m) {
      if (option.name === "m") {
        this.put("n", m);
        note = `Hop n lowered to ${m} as well: a hop cannot be longer than its window.`;
      } else {
        this.put("n", m);
        note = `Hop n is at most the window m, which is ${m}. Raise m first.`;
      }
    }
    this.changed(note);
  }

  put(name, value) {
    this.options[name] = value;
    const inputs = this.root.querySelectorAll(`[data-option="${name}"]`);
    for (const input of inputs) {
      if (input.type === "radio") input.checked = input.value === value;
      else input.value = value;
    }
    const output = inputs[0].parentElement.querySelector("output");
    if (output) output.textContent = value;
  }

  /** Nothing is still to come: a new text begins with what was set, or nothing was. */
  clearNote() {
    this.note.textContent = "";
  }

  /** What was asked for by name, where it can be; answers what cannot, in sentences. */
  take(wanted) {
    const { card } = this;
    const refused = [];
    const ask = (name, take, allowed) => {
      const value = wanted.get(name);
      if (value && !take(value)) refused.push(`The address asks for ${name} ${value.slice(0, 40)}: ${allowed}.`);
    };
    ask("voice", (name) => name === card.name, `there is no such voice here, and ${nameOf(card)} speaks`);
    ask("speaker", (name) => card.speakers.includes(name) && (this.speaker.value = name), `${nameOf(card)} has ${card.speakers.join(", ")}`);
    for (const option of card.options) {
      const take = (text) => {
        const value = asked(option, text);
        if (value !== undefined) this.put(option.name, value);
        return value !== undefined;
      };
      ask(option.name, take, option.choices.length ? `it is ${option.choices.join(" or ")}` : `it is from ${option.low} to ${option.high}`);
    }
    for (const name of this.others) ask(name, () => false, `${nameOf(card)} has no such setting`);
    const { m, n } = this.options;
    if (n > m) {
      this.put("n", m);
      refused.push(`The address asks for a hop n of ${n} in a window m of ${m}: it cannot be longer, and is ${m}.`);
    }
    const heat = (text) => {
      const value = Number(text);
      const isGood = value >= 0 && value <= Number(this.heat.max);
      if (isGood) this.heat.value = this.temperature = value;
      if (isGood) this.showHeat();
      return isGood;
    };
    ask("temperature", heat, `it is from 0 to ${this.heat.max}`);
    const seed = (text) => {
      const isGood = /^\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text));
      if (isGood) this.seed.value = this.seedInForce = Number(text);
      return isGood;
    };
    ask("seed", seed, `it is a whole number from 0 to ${this.seed.max}`);
    return refused;
  }

  /** Options of other voices, which this one has not. */
  get others() {
    const own = new Set(this.card.options.map((option) => option.name));
    return new Set(this.voices.flatMap((voice) => voice.options.map((option) => option.name)).filter((name) => !own.has(name)));
  }

  /** Every setting by name; null where it is as it was at the start. Null while the voices are not known. */
  entries() {
    const { card } = this;
    if (!card) return null;
    const unless = (value, usual) => (value === usual ? null : value);
    const own = card.options.map((option) => [option.name, unless(this.options[option.name], option.default)]);
    return new Map([
      ["voice", unless(card.name, this.voices[0].name)],
      ["speaker", unless(this.speaker.value, card.speakers[0])],
      ["seed", unless(this.seedInForce, 0)],
      ["temperature", this.temperature],
      ...own,
      ...[...this.others].map((name) => [name, null]),
    ]);
  }

  changed(note) {
    this.note.textContent = note;
    this.on.set();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), SEND_AFTER_MS);
  }

  /** Something that the text which is being said keeps: where there is one, the page tells when it comes. */
  changedNext(what) {
    this.changed(this.on.isActive() ? `The ${what} changes with the next text.` : "");
  }

  /** Something is to be said: what was moved a moment ago holds for it. */
  settle() {
    if (this.timer) this.send();
  }

  send() {
    clearTimeout(this.timer);
    this.timer = null;
    if (!this.card) return;
    this.on.changed(this.chosen, this.card.sample_rate_hz);
  }

  get chosen() {
    const { card, temperature } = this;
    const voice = `${card.name}:${this.speaker.value}`;
    return { voice, seed: this.seedInForce, temperature, options: { ...this.options } };
  }

  reseed() {
    this.seed.value = Math.floor(Math.random() * 100000);
    this.takeSeed();
  }

  /** The seed as typed comes into force, or the page says what is allowed and which one stays. */
  takeSeed() {
    const { seed, seedInForce } = this;
    const isGood = seed.value !== "" && seed.validity.valid; // words and half numbers have an empty value
    seed.setAttribute("aria-invalid", String(!isGood));
    this.seedSaid.textContent = isGood ? "" : `A seed is a whole number from ${seed.min} to ${seed.max}. Seed ${seedInForce} stays in force.`;
    if (!isGood) return this.clearNote();
    seed.value = this.seedInForce = Number(seed.value);
    if (this.seedInForce !== seedInForce) this.changedNext("seed");
  }

  /** The server says which options are in force. */
  inForce(options) {
    this.note.textContent = `In force from here on: ${Object.entries(options).map(([k, v]) => `${k} = ${v}`).join(", ")}.`;
  }
}
