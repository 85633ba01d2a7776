// Voice, speaker, the family's options, temperature and seed: drawn from what the voices' cards say.

const SEND_AFTER_MS = 120;
const MOST_SEGMENTS = 4; // more choices do not fit beside each other

export class Settings {
  /** `on` has changed(settings, rateHz). */
  constructor(root, on) {
    this.root = root.querySelector(".settings");
    this.note = root.querySelector(".settings-note");
    this.on = on;
    this.voices = [];
    this.options = {};
    this.temperature = null;
    const set = (name) => this.root.querySelector(`[data-set="${name}"]`);
    [this.voice, this.speaker, this.heat, this.seed] = ["voice", "speaker", "temperature", "seed"].map(set);
    this.voice.addEventListener("change", () => this.choose());
    this.speaker.addEventListener("change", () => this.changed("The speaker changes with the next text."));
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
    this.voice.replaceChildren(...voices.map((v) => new Option(v.title || v.name, v.name)));
    return this.choose(true);
  }

  get card() {
    return this.voices.find((v) => v.name === this.voice.value) ?? this.voices[0];
  }

  choose(first) {
    const { card } = this;
    if (!card) return;
    this.speaker.replaceChildren(...card.speakers.map((name) => new Option(name, name)));
    this.speaker.disabled = card.speakers.length < 2;
    this.temperature = null;
    this.heat.value = card.temperature;
    this.showHeat();
    this.options = Object.fromEntries(card.options.map((o) => [o.name, o.default]));
    this.root.querySelector(".options").replaceChildren(...card.options.map((o) => this.draw(o)));
    if (first) this.send();
    else this.changed("The voice changes with the next text.");
  }

  showHeat() {
    const value = Number(this.heat.value);
    this.heat.parentElement.querySelector("output").textContent = value === 0 ? "greedy" : value.toFixed(2);
  }

  draw(option) {
    return (DRAWN[option.kind] ?? DRAWN.float)(option, (value) => this.set(option, value));
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
    const input = this.root.querySelector(`[data-option="${name}"]`);
    input.value = value;
    input.parentElement.querySelector("output").textContent = value;
  }

  /** Nothing is still to come: a new text begins with what was set, or nothing was. */
  clearNote() {
    this.note.textContent = "";
  }

  changed(note) {
    this.note.textContent = note;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), SEND_AFTER_MS);
  }

  send() {
    clearTimeout(this.timer);
    if (!this.card) return;
    const seed = this.seedInForce;
    const voice = `${this.card.name}:${this.speaker.value}`;
    this.on.changed({ voice, seed, temperature: this.temperature, options: { ...this.options } }, this.card.sample_rate_hz);
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
    if (this.seedInForce !== seedInForce) this.changed("The seed changes with the next text.");
  }

  /** The server says which options are in force. */
  inForce(options) {
    this.note.textContent = `In force from here on: ${Object.entries(options).map(([k, v]) => `${k} = ${v}`).join(", ")}.`;
  }
}

const DRAWN = { int: slider, float: slider, choice: (option, set) => (option.choices.length > MOST_SEGMENTS ? menu : segmented)(option, set) };

function slider(option, set) {
  const row = element("div", "control slider");
  const label = element("label", "", option.label);
  const output = element("output", "", String(option.default));
  const input = element("input");
  const step = option.kind === "int" ? 1 : 0.05;
  Object.assign(input, { type: "range", id: `live-option-${option.name}`, min: option.low, max: option.high, step });
  input.value = option.default;
  input.dataset.option = option.name;
  label.htmlFor = input.id;
  input.addEventListener("input", () => {
    output.textContent = input.value;
    set(Number(input.value));
    output.textContent = input.value;
  });
  row.append(label, output, input);
  return helped(row, option, input);
}

function menu(option, set) {
  const row = element("div", "control");
  const label = element("label", "", option.label);
  const input = element("select");
  input.id = label.htmlFor = `live-option-${option.name}`;
  input.dataset.option = option.name;
  input.replaceChildren(...option.choices.map((choice) => new Option(choice, choice, choice === option.default, choice === option.default)));
  input.addEventListener("change", () => set(input.value));
  row.append(label, input);
  return helped(row, option, input);
}

function segmented(option, set) {
  const row = element("fieldset", "control segmented");
  row.append(element("legend", "", option.label));
  const group = element("div", "segments");
  for (const choice of option.choices) {
    const label = element("label");
    const input = element("input");
    Object.assign(input, { type: "radio", name: `live-option-${option.name}`, value: choice, checked: choice === option.default });
    input.addEventListener("change", () => set(choice));
    label.append(input, element("span", "", choice));
    group.append(label);
  }
  row.append(group);
  return helped(row, option, group);
}

/** The option's own explanation, below it and tied to it. */
function helped(row, option, input) {
  if (!option.help) return row;
  const help = element("small", "help", option.help);
  help.id = `live-help-${option.name}`;
  input.setAttribute("aria-describedby", help.id);
  row.append(help);
  return row;
}

function element(tag, name = "", text = "") {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text) node.textContent = text;
  return node;
}
