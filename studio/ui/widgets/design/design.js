// The design sheet: colours and sizes are drawn from lists, option controls by the code that the pages use.

import { Terms } from "../glossary/tips.js";
import { optionControl } from "../options/option_controls.js";

const COLOURS = "paper panel ink muted line faint accent accent-soft accent-ink lit stall warn good".split(" ");
const SIZES_PX = { figure: 46, title: 32, field: 21, heading: 17, text: 15, control: 14, label: 13, note: 12 };
const OPTIONS = [
  { name: "scheme", kind: "choice", default: "S1", label: "Switch", help: "", choices: ["S1", "S2"], term: "scheme" },
  { name: "m", kind: "int", default: 3, label: "Slider", help: "with its help", low: 1, high: 6, choices: [] },
];

/** Called when the component is in the page. */
export function start(element, { props }) {
  element.querySelector(".swatches").replaceChildren(...COLOURS.map(swatch));
  element.querySelector(".sizes").replaceChildren(
    ...Object.entries(SIZES_PX).map(([name, px]) => {
      const line = node("p", `${name}, ${px} px`);
      line.style.fontSize = `${px}px`;
      return line;
    }),
  );
  const options = element.querySelector(".options");
  options.replaceChildren(...OPTIONS.map((option) => optionControl(option, () => {}, "design")));
  for (const span of options.querySelectorAll(".segments span"))
    span.dataset.sample = span.previousElementSibling.checked ? "segment-on" : "segment";
  options.querySelector('[type="range"]').dataset.sample = "slider";
  new Terms(props.terms).addTips(options);
}

function swatch(name) {
  const item = node("li", name);
  item.style.setProperty("--swatch", `var(--${name})`);
  return item;
}

function node(tag, text) {
  return Object.assign(document.createElement(tag), { textContent: text });
}
