// Parts of the screens before and after the trials.

import { button, copy, h } from "./dom.js";

/** A card with a focusable heading, where a screen reader starts. */
export const card = (title, ...rest) =>
  h("div", { class: "card text" }, h("h2", { text: title, tabindex: -1 }), ...rest);

export const prose = (text) => h("p", { class: "body-text", text: text ?? "" });
export const actions = (...buttons) => h("div", { class: "actions" }, ...buttons);

/** The code for resuming in another browser and for erasure. */
export function raterCode(rater) {
  const code = rater.storage.get("code");
  return code ? [h("p", { class: "hint", text: rater.words.text("own_code", { code }) })] : [];
}

/** A code with a copy button. */
export function codeRow(rater, label, code) {
  const press = button(rater.words.text("copy"), () => copy(code, press, rater.words.text("copied")));
  return h("p", { class: "code-row" }, h("span", { text: label }), h("code", { text: code }), press);
}

/** A field for the code from another browser. */
export function resumeForm(rater) {
  const { words } = rater;
  const field = h("input", {
    type: "text",
    id: "rate-code",
    autocomplete: "off",
    autocapitalize: "characters",
    maxlength: 40,
    spellcheck: "false",
  });
  const missing = h("p", { class: "missing", role: "status" });
  const resume = (event) => {
    event.preventDefault();
    if (!field.value.trim()) return;
    rater.attempt(async () => {
      try {
        await rater.enter(field.value);
      } catch (error) {
        if (error.status !== 422) throw error;
        missing.textContent = words.text("code_form");
      }
    });
  };
  const form = h(
    "form",
    { class: "resume", on: { submit: resume } },
    h("label", { for: "rate-code", text: words.text("code_field") }),
    field,
    h("button", { type: "submit", text: words.text("code_use") }),
    missing,
  );
  return h("details", {}, h("summary", { text: words.text("have_code") }), form);
}
