// Preview of a rater session, drawn from a draft with the rater's scripts. Nothing is sent or stored.

import { card } from "../rate/cards.js";
import { Deck } from "../rate/deck.js";
import { button, h } from "../rate/dom.js";
import { STAGES } from "../rate/stages.js";
import { StepTrial } from "../rate/steps.js";
import { isPage, Trial } from "../rate/trial.js";
import { Words } from "../rate/words.js";

const SILENCE_S = 1;
const UNSEEN = {
  headphones: [
    "Headphone check",
    "Raters hear tones and choose the quietest, or the one with a pitch. The sounds are generated for each rater.",
  ],
  environment: [
    "Environment test",
    "Raters hear four pairs of sounds in noise and choose the better one of each. The sounds are generated for each rater.",
  ],
  unheard: [
    "Live screens",
    "Raters type to two voices, which speak as they type. To try this, use the preview link in the list of tests; previews are stored separately and not counted.",
  ],
};

export class Preview {
  /** `sound(item, system)` returns a sound's bytes. */
  constructor(draft, words, sound) {
    this.draft = draft;
    this.sound = sound;
    this.isPreview = true;
    this.words = new Words(words);
    this.words.setLanguage(draft.language);
    this.context = new AudioContext({ latencyHint: "interactive" });
    this.running = null;
    this.storage = { get: () => null, set: () => {}, drop: () => {} };
    this.steps = draft.stages.flatMap((stage) =>
      stage === "trials" ? draft.trials.map((trial) => ({ stage, trial })) : [{ stage }],
    );
    if (!draft.trials.length)
      this.steps = this.steps.map((step) => (step.stage === "comments" ? { stage: "unheard" } : step));
    this.at = 0;
    this.build();
  }

  build() {
    this.stage = h("div", { class: "rate-stage" });
    this.banner = h("p", { class: "notice", data: { level: "warn" }, role: "status" });
    this.counter = h("span", { class: "muted" });
    const step = (by) => () => this.go(this.at + by);
    this.back = button("Back", step(-1));
    this.next = button("Next", step(1));
    const bar = h(
      "div",
      { class: "preview-bar owner" },
      h("b", { text: "Preview" }),
      this.counter,
      this.back,
      this.next,
      button("Close", () => this.dialog.close(), { autofocus: true }),
    );
    const title = h("h1", { class: "rate-title", text: this.draft.title });
    this.rate = h(
      "div",
      { class: "rate", lang: this.words.language },
      h("header", { class: "rate-head" }, title),
      this.banner,
      this.stage,
    );
    this.dialog = h("dialog", { class: "edit-preview", "aria-label": "Preview" }, bar, this.rate);
    this.dialog.addEventListener("close", () => this.end());
  }

  open() {
    document.body.append(this.dialog); // outside the Gradio container, whose rater styles do not apply here
    this.dialog.showModal();
    return this.go(0);
  }

  end() {
    this.closeScreen();
    this.context.close();
    this.dialog.remove();
  }

  closeScreen() {
    this.running?.close();
    this.running = null;
  }

  async go(at) {
    if (at < 0 || at >= this.steps.length) return;
    this.at = at;
    this.closeScreen();
    this.notify();
    const { stage, trial } = this.steps[at];
    this.counter.textContent = `${at + 1} / ${this.steps.length}`;
    this.back.disabled = at === 0;
    this.next.disabled = at === this.steps.length - 1;
    this.rate.dataset.stage = stage;
    const content = trial ? await this.trial(trial) : this.stageContent(stage);
    if (this.at !== at) return;
    this.stage.replaceChildren(content);
    this.dialog.scrollTo(0, 0);
  }

  stageContent(stage) {
    const { draft } = this;
    if (stage in UNSEEN) {
      const [title, text] = UNSEEN[stage];
      return card(title, h("p", { class: "body-text", text }));
    }
    const about = {
      consent: { text: draft.consent.text, version: draft.consent.version },
      screening: { questions: draft.screening },
      instructions: { text: draft.instructions },
      done: { text: draft.thanks },
    };
    return STAGES[stage](this, about[stage] ?? {});
  }

  async trial(trial) {
    const buffers = await Promise.all(trial.slots.map(({ sound }) => this.buffer(sound)));
    const { screen } = this.draft;
    if (trial.slots.some(({ sound }) => !sound))
      this.notify("warn", "The sounds do not exist yet: silence is played instead.");
    const deck = new Deck(this.context, buffers, {
      together: isPage(screen),
      on: {
        mayPlay: (slot) => view.mayPlay(slot),
        changed: () => view.playbackChanged(),
        silent: () => this.notify("warn", this.words.text("silent")),
      },
    });
    const view = new (trial.asked?.length ? StepTrial : Trial)({ screen, trial }, deck, null, this.words, {
      saveDraft: () => {},
      announce: () => {},
      send: () => this.go(this.at + 1),
    });
    this.running = view;
    return view.element;
  }

  async buffer(sound) {
    if (sound) return this.context.decodeAudioData(await this.sound(sound.item, sound.system));
    const rateHz = this.context.sampleRate;
    return new AudioBuffer({ length: SILENCE_S * rateHz, sampleRate: rateHz });
  }

  // the interface of the rater's page that stages use

  pass = () => this.go(this.at + 1);
  ask = async () => false;
  say = () => {};

  notify(level = "", text = "") {
    this.banner.dataset.level = level;
    this.banner.textContent = text;
  }
}
