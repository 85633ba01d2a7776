// DOM helpers. Text is set as text content: server data never becomes markup.

/** An element; `attributes` may hold `class`, `text`, `on` (listeners by event), `data`, and HTML attributes. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "on") for (const [type, listen] of Object.entries(value)) element.addEventListener(type, listen);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const button = (text, press, attributes = {}) =>
  h("button", { type: "button", ...attributes, on: { click: press } }, h("span", { text }));

/** Show a message in a status line of a page; the line is hidden without one. */
export function showStatus(line, text, level) {
  line.textContent = text;
  line.dataset.level = level;
  line.hidden = !text;
}

const SVG = "http://www.w3.org/2000/svg";

/** A 16 by 16 icon of one path. */
export function icon(path) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

/** Copy a text; `pressed` then shows `label`. */
export async function copy(text, pressed, label) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // No clipboard without HTTPS: select the text and try the old command.
    const code = pressed.parentElement.querySelector("code");
    getSelection().selectAllChildren(code);
    if (!document.execCommand("copy")) return;
  }
  pressed.firstElementChild.textContent = label;
}

/** Ask in a dialog; resolves to true for yes. */
export function ask(dialog, question, text, no, yes) {
  return new Promise((resolve) => {
    const close = (isYes) => {
      dialog.close();
      resolve(isYes);
    };
    const stay = button(no, () => close(false), { class: "primary", autofocus: true });
    const actions = h(
      "div",
      { class: "actions" },
      stay,
      button(yes, () => close(true)),
    );
    dialog.replaceChildren(h("h2", { text: question }), h("p", { text }), actions);
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
  });
}
