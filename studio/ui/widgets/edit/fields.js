// Fields that are bound to a place in the settings: what is typed is there at once, and is saved a moment later.

import { h } from "../rate/dom.js";

let fields = 0; // labels need ids

/** A label above something; `hint` stands below it. */
export function labelled(text, field, hint = "") {
  field.id ||= `edit-${++fields}`;
  const about = hint ? h("small", { id: `${field.id}-hint`, class: "muted", text: hint }) : null;
  if (about) field.setAttribute("aria-describedby", about.id);
  return h("div", { class: "field" }, h("label", { for: field.id, text }), field, about);
}

/** A line of text. */
export function line(of, name, changed, attributes = {}) {
  const field = h("input", { type: "text", maxlength: 400, ...attributes, on: { input: () => set(of, name, field.value, changed) } });
  field.value = of[name] ?? "";
  return field;
}

/** A text of several lines. */
export function area(of, name, changed, attributes = {}) {
  const field = h("textarea", { rows: 5, maxlength: 16000, ...attributes, on: { input: () => set(of, name, field.value, changed) } });
  field.value = of[name] ?? "";
  return field;
}

/** A number; what is none is not taken. An empty field is null where it may be. */
export function number(of, name, changed, { low, high, step = 1, empty = false } = {}) {
  const take = () => {
    const isEmpty = field.value === "";
    const value = Number(field.value);
    const isGood = isEmpty ? empty : field.validity.valid && Number.isFinite(value);
    field.setAttribute("aria-invalid", String(!isGood));
    if (isGood) set(of, name, isEmpty ? null : value, changed);
  };
  const field = h("input", { type: "number", min: low, max: high, step, inputmode: step === 1 ? "numeric" : "decimal", on: { input: take } });
  field.value = of[name] ?? "";
  return field;
}

/** One of several; `options` are [value, text]. */
export function choice(of, name, options, changed) {
  const field = h("select", { on: { change: () => set(of, name, field.value, changed) } }, ...options.map(([value, text]) => h("option", { value, text })));
  field.value = of[name] ?? "";
  return field;
}

/** Yes or no, with its label beside it. */
export function check(of, name, text, changed) {
  const field = h("input", { type: "checkbox", on: { change: () => set(of, name, field.checked, changed) } });
  field.checked = Boolean(of[name]);
  return h("label", { class: "check" }, field, h("span", { text }));
}

function set(of, name, value, changed) {
  of[name] = value;
  changed();
}

/** A part of the page with a heading of its own. */
export const section = (title, about, ...rest) =>
  h("section", { class: "owner-card edit-section" }, h("h2", { text: title }), about ? h("p", { class: "muted", text: about }) : null, ...rest);

export const row = (...rest) => h("div", { class: "fields" }, ...rest);

export const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
