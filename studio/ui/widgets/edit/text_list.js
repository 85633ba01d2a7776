// The texts of a test, and their synthesis by its voices.

import { AGAIN_MS } from "../owner/calls.js";
import { counted } from "../page/plurals.js";
import { button, h } from "../rate/dom.js";
import { area, check, labelled, row, section } from "./fields.js";

export class TextList {
  constructor(page, settings, changed) {
    this.page = page;
    this.input = { texts: "" };
    this.field = area(this.input, "texts", () => this.typed(), { rows: 8, maxlength: 60000, spellcheck: "true" });
    this.counts = h("p", { class: "muted", role: "status" });
    this.confirmation = h("div", { class: "owner-notice", data: { level: "error" }, hidden: true });
    this.speak = h("div", { class: "speaking" });
    const field = labelled(
      "Texts, one per line",
      this.field,
      "A line may begin with a name: hello|Hello, and good morning. Clips are matched to texts by file name.",
    );
    this.element = section(
      "Texts",
      "",
      field,
      this.counts,
      this.confirmation,
      row(
        check(settings, "show_text", "Raters see the text", changed),
        check(settings, "text_after", "…only after hearing every sound", changed),
      ),
      this.speak,
    );
  }

  typed() {
    clearTimeout(this.timer);
    this.isTyping = true;
    this.timer = setTimeout(() => this.save(false), 900);
    this.page.showSaving();
  }

  /** Save pending input now. */
  flush() {
    if (this.isTyping) this.save(false);
  }

  async save(isConfirmed) {
    clearTimeout(this.timer);
    this.isTyping = false;
    this.confirmation.hidden = true;
    const texts = this.input.texts;
    const error = await this.page.change("/texts", { texts, sure: isConfirmed }, { quiet: ["loses_sounds"] });
    if (error?.code !== "loses_sounds") {
      this.isTyping ||= Boolean(error); // keeps the input, and the page warns before it is left
      if (error?.isTemporary) this.timer = setTimeout(() => this.save(isConfirmed), AGAIN_MS);
      return;
    }
    const restore = () => {
      this.confirmation.hidden = true;
      this.take(this.page.state.texts);
      this.page.showStatus("All changes saved");
    };
    this.confirmation.replaceChildren(
      h("p", { text: error.message }),
      h(
        "div",
        { class: "actions" },
        button("Save anyway", () => this.save(true)),
        button("Restore the texts", restore),
      ),
    );
    this.confirmation.hidden = false;
  }

  take(texts) {
    this.field.value = this.input.texts = texts;
  }

  update(state) {
    if (!this.isTyping && this.confirmation.hidden && document.activeElement !== this.field) this.take(state.texts);
    this.field.readOnly = state.state !== "draft";
    const { test, training, trap, gold } = state.items;
    const rest = [
      [training, "practice clip"],
      [trap, "trap"],
      [gold, "gold"],
    ]
      .filter(([n]) => n)
      .map(([n, what]) => counted(n, what));
    this.counts.textContent = [counted(test, "text"), ...rest].join(", ");
    this.drawSpeaking(state);
  }

  drawSpeaking({ unspoken, speaking, state }) {
    if (state !== "draft") return void this.speak.replaceChildren();
    const isOn = speaking && !speaking.over;
    const bar = isOn ? h("progress", { max: speaking.of, value: speaking.done, "aria-label": "sounds spoken" }) : null;
    const press = isOn
      ? button("Stop", () => this.page.change("/speak/stop"))
      : unspoken
        ? button(`Speak ${counted(unspoken, "sound")}`, () => this.page.change("/speak"))
        : null;
    const status = isOn
      ? `${speaking.done} of ${speaking.of} spoken`
      : speaking?.error
        ? `Some sounds were not spoken: ${speaking.error}`
        : unspoken
          ? `${counted(unspoken, "sound")} not yet spoken by the voices above`
          : "";
    this.speak.replaceChildren(
      ...[
        press,
        bar,
        h("p", { class: "muted", role: "status", text: status }),
        ...(speaking?.over ? speaking.notes : []).map((note) => h("p", { class: "muted", text: `Note: ${note}` })),
      ].filter(Boolean),
    );
  }
}
