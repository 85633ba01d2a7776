// Form fields bound to a setting: input updates the setting at once and schedules a save.

import { h } from "../rate/dom.js";

let fields = 0; // for unique ids

/** A field with a label above and an optional hint below. */
export function labelled(text, field, hint = "") {
  field.id ||= `edit-${++fields}`;
  const about = hint ? h("small", { id: `${field.id}-hint`, class: "muted", text: hint }) : null;
  if (about) field.setAttribute("aria-describedby", about.id);
  return h("div", { class: "field" }, h("label", { for: field.id, text }), field, about);
}

/** A line of text. */
export function line(of, name, changed, attributes = {}) {
  const field = h("input", {
    type: "text",
    maxlength: 400,
    ...attributes,
    on: { input: () => set(of, name, field.value, changed) },
  });
  field.value = of[name] ?? "";
  return field;
}

/** A text of several lines. */
export function area(of, name, changed, attributes = {}) {
  const field = h("textarea", {
    rows: 5,
    maxlength: 16000,
    ...attributes,
    on: { input: () => set(of, name, field.value, changed) },
  });
  field.value = of[name] ?? "";
  return field;
}

/** A number; invalid input is ignored. With `empty`, an empty field is null. */
export function number(
  of,
  name,
  changed,
  { low = undefined, high = undefined, step = /** @type {number | string} */ (1), empty = false } = {},
) {
  const take = () => {
    const isEmpty = field.value === "";
    const value = Number(field.value);
    const isValid = isEmpty ? empty : field.validity.valid && Number.isFinite(value);
    field.setAttribute("aria-invalid", String(!isValid));
    if (isValid) set(of, name, isEmpty ? null : value, changed);
  };
  const field = h("input", {
    type: "number",
    min: low,
    max: high,
    step,
    inputmode: step === 1 ? "numeric" : "decimal",
    on: { input: take },
  });
  field.value = of[name] ?? "";
  return field;
}

/** A select; `options` are [value, text]. */
export function choice(of, name, options, changed) {
  const field = h(
    "select",
    { on: { change: () => set(of, name, field.value, changed) } },
    ...options.map(([value, text]) => h("option", { value, text })),
  );
  field.value = of[name] ?? "";
  return field;
}

/** A checkbox with its label. */
export function check(of, name, text, changed) {
  const field = h("input", { type: "checkbox", on: { change: () => set(of, name, field.checked, changed) } });
  field.checked = Boolean(of[name]);
  return h("label", { class: "check" }, field, h("span", { text }));
}

function set(of, name, value, changed) {
  of[name] = value;
  changed();
}

/** A page section with a heading. */
export const section = (title, about, ...rest) =>
  h(
    "section",
    { class: "owner-card edit-section" },
    h("h2", { text: title }),
    about ? h("p", { class: "muted", text: about }) : null,
    ...rest,
  );

export const row = (...rest) => h("div", { class: "fields" }, ...rest);
