// A sitting as a rater would see it, drawn by the raters' own scripts from a draft: nothing is sent, nothing is kept.

import { Deck } from "../rate/deck.js";
import { button, h } from "../rate/dom.js";
import { card, STAGES } from "../rate/stages.js";
import { StepTrial } from "../rate/steps.js";
import { isPage, Trial } from "../rate/trial.js";
import { Words } from "../rate/words.js";

const SILENCE_S = 1;
const UNSEEN = {
  headphones: ["Headphone check", "Here raters hear tones and say which is the quietest, or where the pitch is. They are made for each rater."],
  environment: ["Environment test", "Here raters hear four pairs of sounds in noise and say which one is better. They are made for each rater."],
  unheard: ["Live screens", "Here raters type to two voices, which speak for them alone. The preview link of the list of tests shows that; it is kept apart and not counted."],
};

export class Preview {
  /** `sound(item, system)` gives a sound's bytes. */
  constructor(shown, words, sound) {
    Object.assign(this, { shown, sound, isPreview: true, words: new Words(words) });
    this.words.speak(shown.language);
    this.context = new AudioContext({ latencyHint: "interactive" });
    this.running = null;
    this.kept = { get: () => null, set: () => {}, drop: () => {} };
    this.steps = shown.stages.flatMap((stage) => (stage === "trials" ? shown.trials.map((trial) => ({ stage, trial })) : [{ stage }]));
    if (!shown.trials.length) this.steps = this.steps.map((step) => (step.stage === "comments" ? { stage: "unheard" } : step));
    this.at = 0;
    this.build();
  }

  build() {
    this.stage = h("div", { class: "rate-stage" });
    this.banner = h("p", { class: "notice", data: { level: "warn" }, role: "status" });
    this.place = h("span", { class: "muted" });
    const step = (by) => () => this.go(this.at + by);
    this.back = button("Back", step(-1));
    this.next = button("Next", step(1));
    const bar = h("div", { class: "preview-bar owner" }, h("b", { text: "Preview" }), this.place, this.back, this.next, button("Close", () => this.dialog.close(), { autofocus: true }));
    const title = h("h1", { class: "rate-title", text: this.shown.title });
    this.rate = h("div", { class: "rate", lang: this.words.language }, h("header", { class: "rate-head" }, title), this.banner, this.stage);
    this.dialog = h("dialog", { class: "edit-preview", "aria-label": "Preview" }, bar, this.rate);
    this.dialog.addEventListener("close", () => this.end());
  }

  open() {
    document.body.append(this.dialog); // beside Gradio's page, whose styles for raters are not for this one
    this.dialog.showModal();
    return this.go(0);
  }

  end() {
    this.shut();
    this.context.close();
    this.dialog.remove();
  }

  shut() {
    this.running?.close();
    this.running = null;
  }

  async go(at) {
    if (at < 0 || at >= this.steps.length) return;
    this.at = at;
    this.shut();
    this.notify();
    const { stage, trial } = this.steps[at];
    this.place.textContent = `${at + 1} / ${this.steps.length}`;
    this.back.disabled = at === 0;
    this.next.disabled = at === this.steps.length - 1;
    this.rate.dataset.stage = stage;
    const drawn = trial ? await this.trial(trial) : this.drawn(stage);
    if (this.at !== at) return;
    this.stage.replaceChildren(drawn);
    this.dialog.scrollTo(0, 0);
  }

  drawn(stage) {
    const { shown } = this;
    if (stage in UNSEEN) {
      const [title, text] = UNSEEN[stage];
      return card(title, h("p", { class: "body-text", text }));
    }
    const about = { consent: { text: shown.consent.text, version: shown.consent.version }, screening: { questions: shown.screening }, instructions: { text: shown.instructions }, done: { text: shown.thanks } };
    return STAGES[stage](this, about[stage] ?? {});
  }

  async trial(trial) {
    const buffers = await Promise.all(trial.slots.map(({ sound }) => this.buffer(sound)));
    const { screen } = this.shown;
    if (trial.slots.some(({ sound }) => !sound)) this.notify("warn", "The sounds are not there yet: this is how the screen will look.");
    const deck = new Deck(this.context, buffers, { together: isPage(screen), on: { may: (slot) => view.may(slot), changed: () => view.heard(), silent: () => this.notify("warn", this.words.say("silent")) } });
    const view = new (trial.asked?.length ? StepTrial : Trial)({ screen, trial }, deck, null, this.words, { keep: () => {}, say: () => {}, send: () => this.go(this.at + 1) });
    this.running = view;
    return view.element;
  }

  async buffer(sound) {
    if (sound) return this.context.decodeAudioData(await this.sound(sound.item, sound.system));
    const rateHz = this.context.sampleRate;
    return new AudioBuffer({ length: SILENCE_S * rateHz, sampleRate: rateHz });
  }

  // what the raters' stages ask of the page that they stand on

  pass = () => this.go(this.at + 1);
  ask = async () => false;
  say = () => {};

  notify(level = "", text = "") {
    this.banner.dataset.level = level;
    this.banner.textContent = text;
  }
}
