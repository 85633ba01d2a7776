// The frame around each screen of the rater's page: title, progress, messages, the leave button and the question.

import { card, codeRow } from "./cards.js";
import { ask, button, h } from "./dom.js";

const ENDS = ["done", "refused", "screened_out", "withdrawn", "full", "closed", "bad_link"];
const WITHOUT_LEAVE = ["loading", "welcome", "consent", ...ENDS]; // stages without a leave button

export class RaterPage {
  constructor(root) {
    this.root = root;
    this.words = null; // loaded by the subclass
    this.storage = null; // set by the subclass
    this.isSaving = false; // an answer is being sent
  }

  part(name) {
    return this.root.querySelector(name);
  }

  /** Replace the current screen; the caller has closed `running`. */
  draw(stage, element) {
    const { root } = this;
    root.dataset.stage = stage;
    this.part(".rate-stage").replaceChildren(element);
    this.part(".rate-stage").setAttribute("aria-busy", "false");
    this.part(".leave").hidden = WITHOUT_LEAVE.includes(stage);
    if (stage !== "trials") {
      this.part(".rate-progress").hidden = true;
      delete root.dataset.trial;
    }
    if (stage === "trials" || ENDS.includes(stage)) this.part(".code-card").hidden = true;
    scrollTo(0, 0);
    element.querySelector("[tabindex='-1']")?.focus({ preventScroll: true });
  }

  /** Show the code for resuming in another browser; once per rater. */
  showCode() {
    const code = this.storage.get("code");
    if (!code) return;
    const { words } = this;
    const box = this.part(".code-card");
    const hide = button(words.text("code_noted"), () => (box.hidden = true), { class: "quiet" });
    box.replaceChildren(
      codeRow(this, words.text("code_title"), code),
      h("p", { class: "hint", text: words.text("code_text") }),
      hide,
    );
    box.hidden = false;
  }

  pauseCard({ position, of }, open) {
    const { words } = this;
    const go = button(words.text("go_on"), open, { class: "primary" });
    return card(
      words.text("break_title"),
      h("p", { class: "body-text", text: words.text("break_text", { n: position, of }) }),
      h("div", { class: "actions" }, go),
    );
  }

  loading() {
    this.root.dataset.stage = "loading";
    delete this.root.dataset.trial;
    this.part(".rate-stage").setAttribute("aria-busy", "true");
    this.part(".rate-stage").replaceChildren(h("p", { class: "spin", text: this.words.text("loading_sounds") }));
  }

  progress({ position, of }) {
    const bar = this.part(".rate-progress");
    bar.hidden = !of; // an arena has no last trial
    bar.setAttribute("aria-valuemax", of);
    bar.setAttribute("aria-valuenow", position);
    bar.setAttribute("aria-label", this.words.text("progress"));
    bar.firstElementChild.style.inlineSize = `${(100 * position) / of}%`;
  }

  /** Show that a call is retried; answers are in local storage meanwhile. */
  waiting(isWaiting) {
    const banner = this.part(".banner");
    if (isWaiting && this.words)
      this.notify("warn", this.words.text(this.isSaving ? "saving" : "no_connection"), "network");
    else if (banner.dataset.about === "network") this.notify();
  }

  notify(level = "", text = "", about = "") {
    const banner = this.part(".banner");
    Object.assign(banner.dataset, { level, about });
    if (banner.textContent !== text) banner.textContent = text;
  }

  /** Announce to screen readers. */
  announce(text) {
    this.part(".announcer").textContent = text;
  }

  /** Ask yes or no in a dialog. */
  ask(question, text, yes) {
    const { words } = this;
    return ask(this.part(".rate-ask"), words.text(question), words.text(text), words.text("leave_no"), words.text(yes));
  }

  speak(tag) {
    this.words.setLanguage(tag);
    this.root.lang = document.documentElement.lang = this.words.language;
    this.part(".leave").textContent = this.words.text("leave");
  }

  title(text) {
    this.part(".rate-title").textContent = document.title = text;
  }
}
