// A screen with one question at a time; the sound is replayed for each (ITU-T P.835).

import { h } from "./dom.js";
import { Trial } from "./trial.js";

export class StepTrial extends Trial {
  build() {
    const element = super.build();
    this.counter = h("p", { class: "count step" });
    element.querySelector(".answers").prepend(this.counter);
    return element;
  }

  restore(draft) {
    this.step = draft?.step ?? 0;
    this.beforeMs = draft?.beforeMs ?? 0; // playback for the questions answered so far
    super.restore(draft);
  }

  get isLast() {
    return this.step === this.marks.length - 1;
  }

  get extraDraft() {
    return { step: this.step, beforeMs: this.beforeMs };
  }

  heardMs(k) {
    return this.beforeMs + super.heardMs(k);
  }

  get left() {
    if (this.unheard.length) return this.words.text(this.step ? "listen_again" : "listen_first");
    return this.marks[this.step].value === null ? this.words.text("answer_first") : "";
  }

  get mayRead() {
    return this.step > 0 || super.mayRead;
  }

  update() {
    super.update();
    for (const [k, mark] of this.marks.entries()) mark.element.hidden = k !== this.step;
    const text = this.words.text("question_of", { n: this.step + 1, of: this.marks.length });
    if (this.counter.textContent !== text) this.counter.textContent = text;
    this.sender.firstElementChild.textContent = this.words.text(this.isLast ? "send" : "go_on");
  }

  send() {
    if (this.isLast || this.left || this.isLocked) return super.send();
    this.beforeMs = this.heardMs(0);
    this.step += 1;
    this.deck.rewind(0);
    this.saveDraft();
    this.players[0].press.focus({ preventScroll: true });
    return this.on.announce(`${this.counter.textContent}. ${this.marks[this.step].legend.textContent}`);
  }
}
