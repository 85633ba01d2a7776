// Small bars of a voice's measured figures: the longer, the better.

import { decimal, language, t } from "../../page/translate.js";

const SLOWEST_MS = 200; // an empty bar
const SVG = "http://www.w3.org/2000/svg";

const FIGURES = [
  {
    name: "first_sound_ms",
    term: "first-sound",
    text: (ms) => `${Math.round(ms)} ms`,
    share: (ms) => 1 - ms / SLOWEST_MS,
  },
  {
    name: "predicted_mos",
    term: "naturalness",
    text: (mos) => t("{score} of 5", { score: decimal(mos, 1) }),
    share: (mos) => (mos - 1) / 4,
  },
  {
    name: "word_error_rate",
    term: "right-words",
    text: (rate) => Math.max(0, 1 - rate).toLocaleString(language, { style: "percent" }),
    share: (rate) => 1 - rate,
  },
];

/** A list of the known figures, in an array; an empty array if there are none. `terms` explain them. */
export function figureBars(figures, terms) {
  const known = FIGURES.filter(({ name }) => Number.isFinite(figures[name]));
  if (!known.length) return [];
  const list = document.createElement("dl");
  list.className = "voice-figures";
  for (const { name, term: id, text, share } of known) {
    const row = document.createElement("div");
    const [term, value] = ["dt", "dd"].map((tag) => document.createElement(tag));
    row.dataset.measured = name;
    term.append(terms.link(id));
    value.textContent = text(figures[name]);
    row.append(term, value, bar(share(figures[name])));
    list.append(row);
  }
  return [list];
}

function bar(share) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 100 6");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  for (const [name, width] of [
    ["whole", 100],
    ["part", 100 * Math.min(1, Math.max(0.02, share))],
  ]) {
    const rect = document.createElementNS(SVG, "rect");
    rect.setAttribute("class", String(name));
    rect.setAttribute("width", String(width));
    rect.setAttribute("height", "6");
    svg.append(rect);
  }
  return svg;
}
