// A voice's name, and controls for the options of its family.

import { language, t } from "../page/translate.js";

const MAX_SEGMENTS = 4; // more choices do not fit in a row

/** A name with capital initials. */
export const displayName = (name) =>
  name.replace(/(^|[\s_-]+)(\p{L})/gu, (_, gap, first) => `${gap && " "}${first.toUpperCase()}`);

const PARAMETERS = { m: "window m", n: "hop n", k: "look-ahead k" };

/** Options as text for people who study a voice: `window m 3`, `hop n 1`. */
export const optionTexts = (options) =>
  Object.entries(options).map(([name, value]) => `${PARAMETERS[name] ?? name.replaceAll("_", " ")} ${value}`);

/** A control for an option; `set(value)` is called on changes. `prefix` makes its DOM ids unique. */
export const optionControl = (option, set, prefix = "live") =>
  (CONTROLS[option.kind] ?? CONTROLS.float)(option, set, prefix);

/** The name of a voice as shown. */
export const voiceName = (card) => (card.title ? card.title.split(": ")[0] : displayName(card.name));

/** A number as its control shows it, `1.5` or `1,5`. */
export const optionValue = (value) => Number(value).toLocaleString(language, { useGrouping: false });

/** Parse an option's value from the page's address; undefined if it is not allowed. */
export function parseOption(option, text) {
  if (!text) return undefined;
  if (option.choices.length) return option.choices.includes(text) ? text : undefined;
  const value = Number(text);
  return value >= option.low && value <= option.high && (option.kind !== "int" || Number.isInteger(value))
    ? value
    : undefined;
}

const CONTROLS = {
  int: slider,
  float: slider,
  choice: (option, set, prefix) => (option.choices.length > MAX_SEGMENTS ? menu : segmented)(option, set, prefix),
};

function slider(option, set, prefix) {
  const row = element("div", "control slider");
  const label = element("label", "", t(option.label));
  const shown = (value) => optionValue(value) + (option.unit ?? "");
  const output = element("output", "", shown(option.default));
  const input = element("input");
  const step = option.step ?? (option.kind === "int" ? 1 : 0.05);
  Object.assign(input, {
    type: "range",
    id: `${prefix}-option-${option.name}`,
    min: option.low,
    max: option.high,
    step,
  });
  input.value = option.default;
  input.dataset.option = option.name;
  label.htmlFor = input.id;
  input.addEventListener("input", () => {
    output.textContent = shown(input.value);
    set(Number(input.value));
    output.textContent = shown(input.value);
  });
  row.append(withTip(label, option), output, input);
  return withHelp(row, option, input, prefix);
}

function menu(option, set, prefix) {
  const row = element("div", "control");
  const label = element("label", "", t(option.label));
  const input = element("select");
  input.id = label.htmlFor = `${prefix}-option-${option.name}`;
  input.dataset.option = option.name;
  input.replaceChildren(
    ...option.choices.map(
      (choice) => new Option(t(choice), choice, choice === option.default, choice === option.default),
    ),
  );
  input.addEventListener("change", () => set(input.value));
  row.append(withTip(label, option), input);
  return withHelp(row, option, input, prefix);
}

function segmented(option, set, prefix) {
  const row = element("fieldset", "control segmented");
  row.append(element("legend", "", t(option.label)));
  if (option.term) row.append(withTip("", option));
  const group = element("div", "segments");
  for (const choice of option.choices) {
    const label = element("label");
    const input = element("input");
    Object.assign(input, {
      type: "radio",
      name: `${prefix}-option-${option.name}`,
      value: choice,
      checked: choice === option.default,
    });
    input.dataset.option = option.name;
    input.addEventListener("change", () => set(choice));
    label.append(input, element("span", "", t(choice)));
    group.append(label);
  }
  row.append(group);
  return withHelp(row, option, group, prefix);
}

/** A label beside which the page may add a tip of the option's term. */
function withTip(label, option) {
  const head = element("span");
  head.append(label);
  if (option.term) head.dataset.term = option.term;
  return head;
}

/** Add the option's help text below its control. */
function withHelp(row, option, input, prefix) {
  if (!option.help) return row;
  const help = element("small", "help", t(option.help));
  help.id = `${prefix}-help-${option.name}`;
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
