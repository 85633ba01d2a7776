// A voice's name and its family's options as controls, for whoever lets people choose them.

const MOST_SEGMENTS = 4; // more choices do not fit beside each other

/** A name as people write it. */
export const spokenName = (name) => name.replace(/(^|[\s_-]+)(\p{L})/gu, (_, gap, first) => `${gap && " "}${first.toUpperCase()}`);

/** A family's option as a control; `set` takes its value when it is moved. `place` tells apart those of one name. */
export const drawn = (option, set, place = "live") => (DRAWN[option.kind] ?? DRAWN.float)(option, set, place);

export const nameOf = (card) => (card.title ? card.title.split(": ")[0] : spokenName(card.name));

/** What an address asks of an option, a text; undefined where it is none of what the option may be. */
export function asked(option, text) {
  if (!text) return undefined;
  if (option.choices.length) return option.choices.includes(text) ? text : undefined;
  const value = Number(text);
  return value >= option.low && value <= option.high && (option.kind !== "int" || Number.isInteger(value)) ? value : undefined;
}

const DRAWN = { int: slider, float: slider, choice: (option, set, place) => (option.choices.length > MOST_SEGMENTS ? menu : segmented)(option, set, place) };

function slider(option, set, place) {
  const row = element("div", "control slider");
  const label = element("label", "", option.label);
  const output = element("output", "", String(option.default));
  const input = element("input");
  const step = option.kind === "int" ? 1 : 0.05;
  Object.assign(input, { type: "range", id: `${place}-option-${option.name}`, min: option.low, max: option.high, step });
  input.value = option.default;
  input.dataset.option = option.name;
  label.htmlFor = input.id;
  input.addEventListener("input", () => {
    output.textContent = input.value;
    set(Number(input.value));
    output.textContent = input.value;
  });
  row.append(label, output, input);
  return helped(row, option, input, place);
}

function menu(option, set, place) {
  const row = element("div", "control");
  const label = element("label", "", option.label);
  const input = element("select");
  input.id = label.htmlFor = `${place}-option-${option.name}`;
  input.dataset.option = option.name;
  input.replaceChildren(...option.choices.map((choice) => new Option(choice, choice, choice === option.default, choice === option.default)));
  input.addEventListener("change", () => set(input.value));
  row.append(label, input);
  return helped(row, option, input, place);
}

function segmented(option, set, place) {
  const row = element("fieldset", "control segmented");
  row.append(element("legend", "", option.label));
  const group = element("div", "segments");
  for (const choice of option.choices) {
    const label = element("label");
    const input = element("input");
    Object.assign(input, { type: "radio", name: `${place}-option-${option.name}`, value: choice, checked: choice === option.default });
    input.dataset.option = option.name;
    input.addEventListener("change", () => set(choice));
    label.append(input, element("span", "", choice));
    group.append(label);
  }
  row.append(group);
  return helped(row, option, group, place);
}

/** The option's own explanation, below it and tied to it. */
function helped(row, option, input, place) {
  if (!option.help) return row;
  const help = element("small", "help", option.help);
  help.id = `${place}-help-${option.name}`;
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
