// The form of the selected mark: label, note and times.

import { button, h } from "../../rate/dom.js";

export class MarkForm {
  /** `seconds(sample)` formats a time. */
  constructor(annotator, seconds) {
    this.annotator = annotator;
    this.seconds = seconds;
    this.label = this.note = this.start = this.end = null; // fields, set by draw()
    this.choices = h("datalist", { id: "annotation-labels" });
    this.element = this.draw();
  }

  draw() {
    const field = (name, text, attributes, take) => {
      const input = h("input", {
        id: `annotation-${name}`,
        autocomplete: "off",
        ...attributes,
        on: { change: () => take(input), keydown: (event) => this.keyed(event, input) },
      });
      this[name] = input;
      return h("div", { class: `field ${name}` }, h("label", { for: input.id, text }), input);
    };
    const { annotator } = this;
    const span = (name) => (input) => {
      const sample = Math.round(Number(input.value) * annotator.scene.rateHz);
      if (input.value !== "" && sample >= 0 && sample <= annotator.document.samples)
        annotator.change({ [name]: sample });
      this.fill(true);
    };
    const time = { type: "number", step: "0.001", min: 0 };
    return h(
      "fieldset",
      { class: "mark" },
      h("legend", { text: "Selected mark" }),
      this.choices,
      field("label", "Label", { type: "text", maxlength: 4000, list: "annotation-labels" }, (input) =>
        annotator.change({ label: input.value.trim() }),
      ),
      field("note", "Note", { type: "text", maxlength: 2000 }, (input) =>
        annotator.change({ note: input.value.trim() }),
      ),
      field("start", "Start (s)", time, span("start")),
      field("end", "End (s)", time, span("end")),
      h(
        "div",
        { class: "actions" },
        button("Play", () => annotator.playMark()),
        button("Remove", () => annotator.remove(), { data: { key: "remove" } }),
      ),
    );
  }

  keyed(event, input) {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    if (event.key === "Escape") this.fill(true);
    else input.dispatchEvent(new Event("change"));
    this.annotator.scene.canvas.focus();
  }

  fill(isSure = false) {
    const { mark, layer } = this.annotator;
    this.element.disabled = !mark;
    this.choices.replaceChildren(...(layer?.labels ?? []).map((label) => new Option(label)));
    const values = {
      label: mark?.label ?? "",
      note: mark?.note ?? "",
      start: mark ? this.seconds(mark.start) : "",
      end: mark ? this.seconds(mark.end) : "",
    };
    for (const [name, value] of Object.entries(values)) {
      const input = this[name];
      if (isSure || document.activeElement !== input || input.dataset.of !== mark?.id) input.value = value;
      input.dataset.of = mark?.id ?? "";
    }
    this.end.disabled = layer?.kind === "points";
  }
}
