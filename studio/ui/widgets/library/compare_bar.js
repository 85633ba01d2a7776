// The bar of the selected entries: two to eight of them can be compared.

import { button, h } from "../rate/dom.js";

const MAX_COMPARED = 8;
const MAX_LABEL = 40;

/** The content of the bar; `ticked` has the selected entries by name. */
export function compareBar(ticked, untick) {
  const names = [...ticked.keys()];
  const query = new URLSearchParams(names.map((name) => ["kept", name]));
  const isReady = names.length > 1 && names.length <= MAX_COMPARED;
  const hint =
    names.length > MAX_COMPARED
      ? `At most ${MAX_COMPARED} can be compared.`
      : names.length < 2
        ? "Choose one more to compare them."
        : "";
  const labels = [...ticked].map(([name, { title, text }]) => title || text || name);
  const shortened = labels.map((label) => (label.length > MAX_LABEL ? `${label.slice(0, MAX_LABEL)}…` : label));
  return [
    ...(isReady
      ? [h("a", { class: "button primary", href: `./compare?${query}`, text: `Compare ${names.length}` })]
      : []),
    button("Choose none", untick),
    h("span", { class: "muted", role: "status", text: hint || shortened.join(" · ") }),
  ];
}
