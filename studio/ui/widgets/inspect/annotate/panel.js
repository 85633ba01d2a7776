// Annotation panel: save state, layers and labels, selected mark, list of marks.

import { counted } from "../../page/plurals.js";
import { button, h } from "../../rate/dom.js";
import { ImportExport } from "./import_export.js";
import { colourOf, numbered } from "./lane.js";
import { LayerForm } from "./layer_form.js";
import { MarkForm } from "./mark_form.js";
import { SNAPS } from "./positions.js";

const PAGE = 100; // marks per list page
const STATES = { saved: "All saved", saving: "Saving …", waiting: "Not saved yet", refused: "Not saved" };
const KEYS = [
  ["M", "mark"],
  ["1–9", "label"],
  [", .", "previous, next mark"],
  ["↑ ↓", "layer"],
  ["Q W", "start"],
  ["O P", "end (Shift: 1 ms)"],
  ["Enter", "edit the label"],
  ["Del", "remove"],
  ["Ctrl+Z", "undo"],
  ["X", "snap"],
];

export class Panel {
  constructor(annotator, container) {
    this.annotator = annotator;
    this.container = container;
    this.page = 0;
    this.state = h("p", { class: "state", role: "status" });
    this.answers = h("div", { class: "actions unsaved", hidden: true });
    this.announcer = h("p", { class: "sr-only", "aria-live": "polite" });
    this.undo = button("Undo", () => annotator.undo(), { data: { key: "undo" } });
    this.redo = button("Redo", () => annotator.redo(), { data: { key: "redo" } });
    this.snap = h(
      "select",
      { id: "annotation-snap", on: { change: () => annotator.setSnap(this.snap.value) } },
      ...SNAPS.map((name) => new Option(name, name, false, name === annotator.snap)),
    );
    this.layers = h("ul", { class: "layers", "aria-label": "Layers" });
    this.labels = h("div", { class: "labels", role: "group", "aria-label": "Labels" });
    this.form = new LayerForm(annotator);
    this.mark = new MarkForm(annotator, (sample) => this.seconds(sample));
    this.caption = h("caption");
    this.rows = h("tbody");
    this.pages = h("div", { class: "actions pages" });
    this.others = h("fieldset", { class: "others", hidden: true }, h("legend", { text: "Show other annotators" }));
    const head = ["start (s)", "end (s)", "label", "note"].map((text) => h("th", { scope: "col", text }));
    this.head = h("thead", {}, h("tr", {}, ...head));
    const table = h("table", {}, this.caption, this.head, this.rows);
    const tools = h(
      "div",
      { class: "actions" },
      button("Mark", () => annotator.markHere()),
      this.undo,
      this.redo,
      h("label", { class: "snap" }, h("span", { text: "Snap to" }), this.snap),
    );
    const keys = h("p", { class: "keys" }, ...KEYS.flatMap(([key, what]) => [h("kbd", { text: key }), ` ${what} `]));
    const list = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Marks" }, table);
    const whose = annotator.source.canLayer
      ? h("span", { class: "who", text: `by ${annotator.document.annotator}` })
      : null;
    container.replaceChildren(
      h("div", { class: "annotation-head" }, h("h2", { text: "Annotation" }), whose, this.state, this.answers),
      tools,
      h("div", { class: "actions" }, this.layers, this.form.more),
      this.form.element,
      this.labels,
      this.mark.element,
      list,
      this.pages,
      this.others,
      ...(annotator.source.download ? [new ImportExport(annotator).element] : []),
      keys,
      this.announcer,
    );
    this.fillOthers();
  }

  close() {
    cancelAnimationFrame(this.frameRequest);
    this.container.replaceChildren();
  }

  /** `choices`: actions offered after a refusal, as [text, function]. */
  showState(
    state,
    why = "",
    choices = [
      ["Try again", () => this.annotator.saver.retry()],
      ["Discard my changes", () => this.annotator.discard()],
    ],
  ) {
    this.state.dataset.state = state;
    this.state.textContent = why ? `${STATES[state]}: ${why}${state === "waiting" ? " Retrying." : ""}` : STATES[state];
    this.answers.hidden = state !== "refused";
    this.answers.replaceChildren(...choices.map(([text, act]) => button(text, act)));
  }

  /** Announce to screen readers. */
  announce(text) {
    this.announcer.textContent = text;
  }

  /** Description of a mark. */
  describe(mark) {
    const at = (sample) => this.seconds(sample);
    const where = mark.end > mark.start ? `${at(mark.start)} to ${at(mark.end)} s` : `${at(mark.start)} s`;
    return [mark.label || "no label", where, mark.note].filter(Boolean).join(", ");
  }

  seconds(sample) {
    return (sample / this.annotator.scene.rateHz).toFixed(4);
  }

  /** Focus the label field of the selected mark. */
  type() {
    this.mark.label.focus();
    this.mark.label.select();
  }

  show() {
    this.frameRequest ??= requestAnimationFrame(() => {
      this.frameRequest = undefined;
      this.fill();
    });
  }

  fill() {
    const { annotator, container } = this;
    const { document: whole, layer } = annotator;
    const focused = container.contains(document.activeElement)
      ? /** @type {HTMLElement} */ (document.activeElement).dataset.key
      : undefined;
    this.undo.disabled = !whole.past.length;
    this.redo.disabled = !whole.future.length;
    this.snap.value = annotator.snap;
    this.layers.replaceChildren(...[...whole.layers.values()].map((one) => this.layerRow(one)));
    this.form.fill();
    this.labels.replaceChildren(...(layer?.labels ?? []).map((label) => this.chip(layer, label)));
    this.labels.hidden = !layer?.labels.length;
    this.mark.fill();
    this.fillList(layer);
    if (focused) container.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  layerRow(layer) {
    const { annotator } = this;
    const isActive = layer.id === annotator.active;
    const count = counted(layer.marks.size, layer.kind === "points" ? "point" : "region");
    const choose = h(
      "button",
      {
        type: "button",
        "aria-pressed": String(isActive),
        data: { key: `layer ${layer.id}` },
        on: { click: () => annotator.activate(layer.id) },
      },
      h("span", { text: layer.name }),
      h("small", { text: count }),
    );
    const edit = annotator.source.canLayer
      ? button("Edit", () => this.form.open(layer), {
          "aria-label": `Edit the layer ${layer.name}`,
          data: { key: `edit ${layer.id}` },
        })
      : null;
    return h("li", {}, choose, edit);
  }

  chip(layer, label) {
    const { annotator } = this;
    const isOn = (annotator.mark?.label ?? annotator.label) === label;
    const chip = h(
      "button",
      {
        type: "button",
        class: "chip",
        "aria-pressed": String(isOn),
        data: { key: `label ${label}` },
        on: { click: () => annotator.applyLabel(label) },
      },
      h("span", { text: numbered(layer, label) }),
    );
    chip.style.setProperty("--mark", colourOf(layer, label));
    return chip;
  }

  // ------------------------------------------------------------ list

  fillList(layer) {
    const marks = layer ? this.annotator.document.sorted(layer) : [];
    const at = marks.findIndex(({ id }) => id === this.annotator.chosen);
    const last = Math.max(0, Math.ceil(marks.length / PAGE) - 1);
    if (at >= 0 && this.shownFor !== this.annotator.chosen) this.page = Math.floor(at / PAGE);
    this.shownFor = this.annotator.chosen;
    this.page = Math.min(this.page, last);
    const visible = marks.slice(this.page * PAGE, (this.page + 1) * PAGE);
    this.caption.textContent = layer
      ? `${layer.name}: ${marks.length ? `${marks.length} ${marks.length === 1 ? "mark" : "marks"}` : "no marks yet; drag on its lane, or press M"}`
      : "No layers yet";
    this.head.hidden = !visible.length;
    this.rows.replaceChildren(...visible.map((mark) => this.row(mark)));
    const turn = (by) => () => {
      this.page += by;
      this.fill();
    };
    const buttons = [
      this.page > 0 && button("Earlier marks", turn(-1), { data: { key: "earlier" } }),
      this.page < last && button("Later marks", turn(1), { data: { key: "later" } }),
    ];
    this.pages.replaceChildren(...buttons.filter(Boolean));
  }

  row(mark) {
    const { annotator } = this;
    const isChosen = mark.id === annotator.chosen;
    const go = h("button", {
      type: "button",
      "aria-pressed": String(isChosen),
      "aria-label": `Go to ${this.describe(mark)}`,
      data: { key: `mark ${mark.id}` },
      text: this.seconds(mark.start),
      on: { click: () => annotator.choose(mark.id, true) },
    });
    const end = mark.end > mark.start ? this.seconds(mark.end) : "–";
    return h(
      "tr",
      { class: isChosen ? "chosen" : "" },
      h("th", { scope: "row" }, go),
      h("td", { text: end }),
      h("td", { text: mark.label }),
      h("td", { text: mark.note }),
    );
  }

  // ------------------------------------------------------------ other annotators

  async fillOthers() {
    const { source, document: whole } = this.annotator;
    if (!source.others) return;
    const names = (await source.others().catch(() => [])).filter((name) => name && name !== whole.annotator);
    this.others.hidden = !names.length;
    this.others.append(
      ...names.map((name) => {
        const show = () => this.annotator.showOther(name, box.checked).catch((error) => this.announce(error.message));
        const box = h("input", { type: "checkbox", on: { change: show } });
        return h("label", {}, box, ` ${name}`);
      }),
    );
  }
}
