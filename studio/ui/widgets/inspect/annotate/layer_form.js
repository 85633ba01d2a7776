// Form to add a layer, or to edit its name and label set; for annotators with permission.

import { button, h } from "../../rate/dom.js";
import { freshId } from "./document.js";

const FIRST = { name: "faults", labels: ["click", "mispronounced", "wrong prosody", "seam heard"] };
const MOST_LABELS = 64;

export class LayerForm {
  constructor(annotator) {
    this.annotator = annotator;
    this.layer = null; // the edited layer
    const field = (name, text, input) =>
      h("div", { class: `field ${name}` }, h("label", { for: input.id, text }), input);
    this.name = h("input", {
      type: "text",
      id: "annotation-layer",
      maxlength: 80,
      autocomplete: "off",
      required: true,
    });
    this.kind = h(
      "select",
      { id: "annotation-kind" },
      new Option("regions", "regions"),
      new Option("points", "points"),
    );
    this.labels = h("input", { type: "text", id: "annotation-set", maxlength: 4000, autocomplete: "off" });
    this.heading = h("h3");
    this.remove = button("Remove the layer", () => this.delete());
    const actions = h(
      "div",
      { class: "actions" },
      h("button", { type: "submit", class: "primary", text: "Save layer" }),
      button("Cancel", () => this.close()),
      this.remove,
    );
    this.wrong = h("p", { class: "wrong", role: "alert" });
    this.form = h(
      "form",
      {
        hidden: true,
        on: { submit: (event) => this.save(event), keydown: (event) => event.key === "Escape" && this.close() },
      },
      this.heading,
      field("layer", "Name", this.name),
      field("kind", "Type", this.kind),
      field("set", "Labels, separated by commas", this.labels),
      this.wrong,
      actions,
    );
    this.more = button("Add a layer", () => this.open(null), {
      data: { key: "add layer" },
      hidden: !annotator.source.canLayer,
    });
    this.element = h("div", { class: "layer-form" }, this.form);
  }

  /** Open the form if there is no layer yet. */
  fill() {
    const isEmpty = !this.annotator.document.layers.size;
    if (isEmpty && this.form.hidden && this.annotator.source.canLayer) this.open(null, FIRST, false);
  }

  open(layer, { name, labels } = layer ?? { name: "", labels: [] }, takesFocus = true) {
    this.layer = layer;
    this.heading.textContent = layer ? `Layer ${layer.name}` : "New layer";
    this.name.value = name;
    this.kind.value = layer?.kind ?? "regions";
    this.kind.disabled = Boolean(layer);
    this.labels.value = labels.join(", ");
    this.remove.hidden = !layer;
    this.wrong.textContent = "";
    this.form.hidden = false;
    this.more.hidden = true;
    if (takesFocus) this.name.focus();
  }

  close() {
    this.form.hidden = true;
    this.more.hidden = false;
    this.more.focus();
  }

  save(event) {
    event.preventDefault();
    const { document: whole } = this.annotator;
    const name = this.name.value.trim();
    const labels = [
      ...new Set(
        this.labels.value
          .split(",")
          .map((label) => label.trim())
          .filter(Boolean),
      ),
    ];
    const isDuplicate = [...whole.layers.values()].some((one) => one.name === name && one.id !== this.layer?.id);
    if (!name || isDuplicate) return this.showMessage(name ? `A layer named ${name} exists already.` : "Enter a name.");
    if (labels.length > MOST_LABELS || labels.some((label) => label.length > 200))
      return this.showMessage(`At most ${MOST_LABELS} labels of up to 200 characters each.`);
    const layer = { id: this.layer?.id ?? freshId(), name, kind: this.kind.value, labels };
    whole.putLayer(layer);
    this.close();
    this.annotator.activate(layer.id);
    if (!labels.includes(this.annotator.label)) this.annotator.applyLabel(labels[0] ?? "");
    return this.annotator.scene.canvas.focus();
  }

  delete() {
    this.annotator.document.dropLayer(this.layer.id); // undo restores it with its marks
    this.close();
  }

  showMessage(text) {
    this.wrong.textContent = text;
  }
}
