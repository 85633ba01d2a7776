// The elements of a live screen: text fields, buttons, the choice, the scores, and the row to send.

import { button, h } from "./dom.js";
import { chosen, scored } from "./marks.js";

const MAX_CHARS = 2000;
export const NAMES = "AB"; // of the voices

export class LiveView {
  constructor(live) {
    this.live = live;
    const { trial, words } = live;
    this.fields = [0, 1].map((slot) =>
      h("textarea", {
        rows: 4,
        maxlength: live.screen.max_chars ?? MAX_CHARS,
        readonly: true,
        placeholder: slot ? "" : words.text("live_before", { button: words.text("live_begin") }),
        spellcheck: "false",
        autocapitalize: "off",
        autocomplete: "off",
        "aria-label": words.text("live_voice", { name: NAMES[slot] }),
      }),
    );
    this.states = [0, 1].map(() => h("span", { class: "state", role: "status" }));
    this.starts = [0, 1].map((slot) => button("", () => live.begin(slot), { class: slot ? "" : "primary" }));
    this.finisher = button(words.text("live_finish"), () => live.finish(), { hidden: true, class: "primary" });
    const marked = () => live.marked(this.mark);
    this.mark = chosen("ab", live.screen.prompt, live.screen.choices, words, marked, live.isVote);
    this.scores = [0, 1].flatMap((slot) =>
      live.screen.questions.map((question) => {
        const prompt = `${words.text("live_voice", { name: NAMES[slot] })}: ${question.prompt}`;
        const mark = scored({ ...question, prompt }, null, false, words, (score) => live.marked(score));
        return Object.assign(mark, { slot, question: question.id });
      }),
    );
    this.missing = h("p", { class: "missing", id: "rate-missing" });
    this.sender = button(words.text("send"), () => live.send(), {
      class: "primary",
      "aria-describedby": "rate-missing",
    });
    this.skipper = button(words.text("live_skip"), () => live.skip(), { hidden: true });
    const counter = h(
      "p",
      { class: "count", tabindex: -1 },
      h("b", { text: words.place(trial) }),
      trial.practice ? h("span", { class: "badge", text: words.text("practice") }) : null,
    );
    const text = trial.text
      ? [h("p", { class: "prompt", text: words.text("live_text") }), h("blockquote", { text: trial.text })]
      : [h("p", { class: "prompt", text: words.text("live_own") })];
    this.element = h(
      "div",
      { class: "trial typing" },
      h("div", { class: "card" }, counter, ...text, ...[0, 1].map((slot) => this.voice(slot))),
      h("div", { class: "card answers" }, this.mark.element, ...this.scores.map((score) => score.element)),
      h(
        "div",
        { class: "send-row" },
        h(
          "div",
          {},
          this.missing,
          h("p", { class: "keys", text: words.text(live.isVote ? "keys_vote" : "keys_live") }),
        ),
        this.skipper,
        live.isVote ? null : this.sender,
      ),
    );
  }

  voice(slot) {
    const name = h("span", { class: "name", text: this.live.words.text("live_voice", { name: NAMES[slot] }) });
    const actions = h("div", { class: "actions" }, this.starts[slot], ...(slot ? [] : [this.finisher]));
    return h(
      "section",
      { class: "voice", data: { slot } },
      h("div", { class: "voice-head" }, name, this.states[slot]),
      this.fields[slot],
      actions,
    );
  }

  /** Show the state of the trial. */
  update() {
    const { live } = this;
    const { words } = live;
    const isFree = live.speaking < 0 && !live.isLocked;
    for (const slot of [0, 1]) {
      const speaks = live.speaking === slot;
      const state = speaks
        ? live.phase === "starting"
          ? "live_wait"
          : "live_speaks"
        : live.heardMs[slot]
          ? "heard"
          : "";
      const text =
        state === "live_wait" && live.ahead !== null
          ? words.text("live_place", { n: live.ahead + 1 })
          : state && words.text(state);
      if (this.states[slot].textContent !== text) this.states[slot].textContent = text;
      this.states[slot].dataset.state = state;
      const label = slot
        ? live.heardMs[1]
          ? "live_repeat"
          : "live_hear"
        : live.heardMs[0]
          ? "live_anew"
          : "live_begin";
      this.starts[slot].firstElementChild.textContent = words.text(label);
      this.starts[slot].disabled = !isFree || (slot === 1 && !live.heardMs[0]);
      this.starts[slot].classList.toggle("primary", !live.heardMs[slot] && (slot === 0 || live.heardMs[0] > 0));
    }
    this.starts[0].hidden = live.speaking === 0;
    this.finisher.hidden = !this.starts[0].hidden;
    this.finisher.disabled = !live.mayType;
    this.fields[0].readOnly = !live.mayType;
    const isHeard = live.speaking < 0 && live.heardMs.every(Boolean); // a choice compares both voices
    this.mark.element.disabled = !isHeard;
    for (const score of this.scores) score.element.disabled = live.speaking === score.slot || !live.heardMs[score.slot];
    const { left } = live;
    if (!live.notice && this.missing.textContent !== left) this.missing.textContent = left;
    this.sender.setAttribute("aria-disabled", String(Boolean(left) || Boolean(live.isLocked)));
    this.skipper.disabled = !isFree;
    this.element.classList.toggle("ready", !left);
  }
}
