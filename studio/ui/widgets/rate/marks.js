// Answer inputs: a scale of labelled steps, a slider with a number, or a choice. Each has `element`, `value` (null until
// it is set), `set(value)` and `focus()`.

import { button, h } from "./dom.js";

const MAX_STEPS = 11; // longer scales use a slider

let groups = 0; // for unique radio group names

/** A fieldset of radio buttons; `options` are {value, label, sub, key}. */
class Radios {
  constructor(legend, options, changed, style) {
    this.value = null;
    this.changed = changed;
    const name = `rate-${++groups}`;
    this.inputs = new Map();
    const rows = options.map(({ value, label, sub, key }) => {
      const input = h("input", {
        type: "radio",
        name,
        value,
        "aria-keyshortcuts": key,
        on: { change: () => this.set(value) },
      });
      this.inputs.set(value, input);
      return h("label", {}, input, h("span", {}, h("b", { text: label }), sub ? h("small", { text: sub }) : null));
    });
    this.legend = h("legend", { text: legend });
    this.element = h("fieldset", { class: `marks ${style}` }, this.legend, h("div", { class: "options" }, ...rows));
  }

  set(value) {
    const input = this.inputs.get(value);
    if (!input) return false;
    input.checked = true;
    this.value = value;
    this.changed(this);
    return true;
  }

  focus() {
    (this.inputs.get(this.value) ?? this.inputs.values().next().value).focus({ preventScroll: true });
  }

  /** The chosen label, for screen readers. */
  get announcement() {
    return this.inputs.get(this.value)?.parentElement.textContent ?? "";
  }
}

/** A fieldset of buttons: pressing one is the answer. */
class Presses {
  constructor(legend, options, changed) {
    this.value = null;
    this.changed = changed;
    this.buttons = new Map(
      options.map(({ value, label, key }) => [
        value,
        button(label, () => this.set(value), { value, "aria-keyshortcuts": key }),
      ]),
    );
    this.legend = h("legend", { text: legend });
    const row = h("div", { class: "actions" }, ...this.buttons.values());
    this.element = h("fieldset", { class: "marks" }, this.legend, row);
  }

  set(value) {
    if (!this.buttons.has(value)) return false;
    this.value = value;
    this.changed(this);
    return true;
  }

  get announcement() {
    return this.buttons.get(this.value)?.textContent ?? "";
  }
}

/** A slider from `low` to `high` with a number field; unset, and without a knob, until one of them is touched. */
class Slider {
  constructor(legend, { low, high, labels, bands }, words, changed) {
    this.value = null;
    this.unset = words.text("unset");
    this.legend = null;
    this.changed = changed;
    this.low = low;
    this.high = high;
    const middle = Math.round((low + high) / 2);
    const take = () => this.set(Number(this.range.value));
    this.range = h("input", {
      type: "range",
      min: low,
      max: high,
      step: 1,
      value: middle,
      "aria-label": legend,
      "aria-valuetext": this.unset,
      on: { input: take, pointerup: take },
    });
    this.number = h("input", {
      type: "number",
      min: low,
      max: high,
      step: 1,
      inputmode: "numeric",
      placeholder: this.unset,
      "aria-label": legend,
      on: { input: () => this.typed() },
    });
    const under = bands ?? [low, high].map((v) => [v, labels[v]].filter(Boolean).join(" ")); // bands have equal widths
    const ends = h(
      "div",
      { class: bands ? "ends bands" : "ends", "aria-hidden": "true" },
      ...under.map((text) => h("span", { text })),
    );
    this.element = h(
      "div",
      { class: "slide", data: { set: "0" } },
      h("div", { class: "rail" }, this.range, ends),
      this.number,
    );
  }

  typed() {
    const value = Number(this.number.value);
    const isValid = this.number.value !== "" && Number.isInteger(value) && value >= this.low && value <= this.high;
    this.number.setAttribute("aria-invalid", String(this.number.value !== "" && !isValid));
    this.take(isValid ? value : null, this.number.value !== "" && !isValid);
    if (isValid) this.range.value = value;
  }

  set(value) {
    if (!Number.isInteger(value) || value < this.low || value > this.high) return false;
    this.range.value = this.number.value = value;
    this.number.removeAttribute("aria-invalid");
    this.take(value);
    return true;
  }

  /** Clear a typed number that is not on the scale. */
  refuse() {
    this.number.value = "";
    this.range.value = Math.round((this.low + this.high) / 2);
    this.take(null, true);
  }

  take(value, isRefused = false) {
    this.value = value;
    this.isRefused = isRefused;
    this.element.dataset.set = value === null ? "0" : "1";
    this.range.setAttribute("aria-valuetext", value === null ? this.unset : String(value));
    this.changed(this);
  }

  focus() {
    this.range.focus({ preventScroll: true });
  }

  get announcement() {
    return this.value === null ? "" : String(this.value);
  }
}

/** The input of one question about one slot; `name` is the sound's name if there are several. */
export function scored(question, name, isRow, words, changed) {
  const { low, high, labels } = question;
  const legend = name ? words.text("score_of", { name }) : question.prompt;
  if (isRow || high - low >= MAX_STEPS) {
    const slider = new Slider(legend, question, words, changed);
    if (isRow) return slider;
    slider.legend = h("legend", { text: legend });
    slider.element = h("fieldset", { class: "marks" }, slider.legend, slider.element);
    return slider;
  }
  const values = Array.from({ length: high - low + 1 }, (_, k) => low + k);
  const options = values.map((value) => ({
    value,
    label: signed(value, low < 0),
    sub: labels[value],
    key: String(value),
  }));
  return new Radios(legend, options, changed, "steps");
}

/** A step as text, with its sign on a signed scale. */
const signed = (value, isSigned) => (isSigned && value > 0 ? `+${value}` : String(value).replace("-", "\u2212"));

export const CHOICE_KEYS = { a: "a", b: "b", tie: "t", both_bad: "x" };

/** The choice between two sounds; `kind` is ab, similarity or abx. With `isVote`, pressing a choice sends it. */
export function chosen(kind, prompt, choices, words, changed, isVote = false) {
  const available = Object.keys(CHOICE_KEYS).filter((choice) => choices.includes(choice));
  const order = ["a", "tie", "both_bad", "b"].filter((choice) => available.includes(choice)); // A left, B right
  const options = order.map((value) => ({
    value,
    label: words.text(`${kind}_${value}`),
    sub: CHOICE_KEYS[value].toUpperCase(),
    key: CHOICE_KEYS[value],
  }));
  const legend = prompt || words.text(`${kind}_prompt`);
  return isVote ? new Presses(legend, options, changed) : new Radios(legend, options, changed, "choice");
}
