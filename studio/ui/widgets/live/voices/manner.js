// How a voice speaks, in plain words: its speed, and its expressiveness, which is the temperature of its sampling.

import { optionControl, optionValue } from "../../options/option_controls.js";
import { t } from "../../page/translate.js";

const SPEED = {
  name: "speed",
  kind: "float",
  label: t("Speed"),
  help: t("times as fast; the pitch stays"),
  term: "speed",
  default: 1,
  low: 0.5,
  high: 2,
  step: 0.1,
  unit: "×",
};
const FACTORS = { [t("Calm")]: 0.5, [t("Normal")]: 1, [t("Lively")]: 1.5 }; // of the voice's own temperature
const EXPRESSIVENESS = {
  name: "expressiveness",
  kind: "choice",
  label: t("Expressiveness"),
  help: t("how much the melody varies"),
  term: "expressiveness",
  default: t("Normal"),
  choices: Object.keys(FACTORS),
};
const STEP = 20; // a temperature is a multiple of 1/20, as its slider has them

export class Manner {
  /**
   * @param box element for the controls
   * @param terms tips
   * @param on speed(), after a change; temperature(value), null for the voice's own
   */
  constructor(box, terms, on) {
    this.speed = SPEED.default;
    const setSpeed = (speed) => {
      this.speed = speed;
      on.speed();
    };
    const setLevel = (level) => on.temperature(level === EXPRESSIVENESS.default ? null : this.temperatures[level]);
    this.expressiveness = optionControl(EXPRESSIVENESS, setLevel);
    box.replaceChildren(optionControl(SPEED, setSpeed), this.expressiveness);
    terms.addTips(box);
    this.slider = box.querySelector('[data-option="speed"]');
    this.temperatures = {};
  }

  /** Show the expressiveness of a voice at a temperature; null is its own. A system without one does not have it. */
  show(card, temperature) {
    const own = card.temperature;
    this.expressiveness.hidden = own === 0;
    const levels = Object.entries(FACTORS).map(([level, factor]) => [level, Math.round(own * factor * STEP) / STEP]);
    this.temperatures = { ...Object.fromEntries(levels), [EXPRESSIVENESS.default]: own };
    for (const input of this.expressiveness.querySelectorAll("input"))
      input.checked = this.temperatures[input.value] === (temperature ?? own);
  }

  /** Set a speed given as text, to the nearest step; whether it is allowed. */
  request(text) {
    const isValid = Number(text) >= SPEED.low && Number(text) <= SPEED.high;
    if (isValid) {
      this.slider.value = Number(text);
      this.speed = Number(this.slider.value);
      this.slider.parentElement.querySelector("output").textContent = optionValue(this.speed) + SPEED.unit;
    }
    return isValid;
  }

  /** What the page's address may have as a speed. */
  get allowed() {
    return t("it must be from {low} to {high}", { low: SPEED.low, high: SPEED.high });
  }
}
