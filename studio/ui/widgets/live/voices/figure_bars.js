// Small bars of a voice's measured figures: the longer, the better.

const SLOWEST_MS = 200; // an empty bar
const SVG = "http://www.w3.org/2000/svg";

const FIGURES = [
  {
    name: "first_sound_ms",
    label: "First sound",
    help: "Median time from the last word it needs to the first sound, without network and loudspeaker.",
    text: (ms) => `${Math.round(ms)} ms`,
    share: (ms) => 1 - ms / SLOWEST_MS,
  },
  {
    name: "predicted_mos",
    label: "Naturalness",
    help: "From 1 to 5, as a program predicts that listeners would rate it.",
    text: (mos) => `${mos.toFixed(1)} of 5`,
    share: (mos) => (mos - 1) / 4,
  },
  {
    name: "word_error_rate",
    label: "Right words",
    help: "Words that a speech recogniser understands correctly.",
    text: (rate) => `${Math.round(100 * Math.max(0, 1 - rate))}%`,
    share: (rate) => 1 - rate,
  },
];

/** A list of the known figures, in an array; an empty array if there are none. */
export function figureBars(figures) {
  const known = FIGURES.filter(({ name }) => Number.isFinite(figures[name]));
  if (!known.length) return [];
  const list = document.createElement("dl");
  list.className = "voice-figures";
  for (const { name, label, help, text, share } of known) {
    const row = document.createElement("div");
    const [term, value] = ["dt", "dd"].map((tag) => document.createElement(tag));
    row.title = help;
    row.dataset.measured = name;
    term.textContent = label;
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
