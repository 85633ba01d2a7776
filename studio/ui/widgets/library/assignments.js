// Annotation assignments: utterances, layers and annotators, with each annotator's link and progress.

import { counted } from "../page/plurals.js";
import { button, copy, h } from "../rate/dom.js";
import { Section } from "./section.js";

const MAX_UTTERANCES = 1000;
const DEFAULT_LAYER = { name: "faults", kind: "regions", labels: "click, mispronounced, wrong prosody, seam heard" };
const splitList = (text) => [
  ...new Set(
    text
      .split(/[,\n]/)
      .map((one) => one.trim())
      .filter(Boolean),
  ),
];

export class Assignments extends Section {
  /** `chosen()` returns the utterances of a new assignment; `confirm(question, text, yes)` asks the user. */
  constructor(calls, chosen, confirm) {
    super();
    this.calls = calls;
    this.chosen = chosen;
    this.confirm = confirm;
    this.summary = h("summary", { text: "Annotation assignments" });
    this.list = h("ul", { class: "assignments-list", "aria-label": "Assignments" });
    this.more = button("New assignment", () => this.begin());
    this.form = h("form", {
      class: "note",
      "aria-label": "New assignment",
      hidden: true,
      on: { submit: (event) => this.create(event) },
    });
    const about = h("p", {
      class: "muted",
      text: "Each annotator gets a personal link, which opens only these utterances and needs no token.",
    });
    this.element = h(
      "details",
      { class: "owner-card assignments", on: { toggle: () => this.element.open && this.load() } },
      this.summary,
      about,
      this.notice,
      this.list,
      h("div", { class: "actions" }, this.more),
      this.form,
    );
  }

  async load() {
    try {
      const assignments = await this.calls.get("assignments");
      this.list.replaceChildren(...assignments.map((one) => this.row(one)));
    } catch (error) {
      this.showMessage(error.message);
    }
  }

  row(one) {
    const layers = one.layers
      .map(({ name, labels }) => (labels.length ? `${name} (${labels.join(", ")})` : name))
      .join("; ");
    const people = h("div", { class: "people" });
    const details = h(
      "details",
      { on: { toggle: () => details.open && this.fill(one, people) } },
      h("summary", { text: `${one.title} · ${counted(one.utterances, "utterance")} · ${one.annotators.join(", ")}` }),
      h("p", { class: "muted", text: `${one.is_blind ? "Blind. " : ""}Layers: ${layers}` }),
      people,
    );
    return h("li", {}, details);
  }

  /** Load links and progress when the assignment is opened; the server reads every document for that. */
  async fill(one, container) {
    try {
      const { people, task } = await this.calls.get(`assignment/${one.id}`);
      const head = ["annotator", "link", "done", "started", "marks"].map((text) => h("th", { scope: "col", text }));
      const rows = people.map((person) => {
        const link = new URL(`./${person.link}`, location.href).href;
        const code = h("code", { class: "sr-only", text: link });
        const copyLink = h(
          "button",
          {
            type: "button",
            "aria-label": `Copy the link of ${person.annotator}`,
            on: { click: (event) => copy(link, event.currentTarget, "Copied") },
          },
          h("span", { text: "Copy link" }),
        );
        const cells = [`${person.done} of ${one.utterances}`, person.begun, person.marks].map((text) =>
          h("td", { text }),
        );
        return h("tr", {}, h("th", { scope: "row", text: person.annotator }), h("td", {}, copyLink, code), ...cells);
      });
      const end = button("End assignment", () => this.end(one), { "aria-label": `End the assignment ${one.title}` });
      const scroll = h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": `Annotators of ${one.title}` },
        h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)),
      );
      container.replaceChildren(
        ...(task ? [h("p", { class: "task", text: task })] : []),
        scroll,
        h("div", { class: "actions" }, end),
      );
    } catch (error) {
      this.showMessage(error.message);
    }
  }

  async end(one) {
    if (!(await this.confirm(`End “${one.title}”?`, "Its links stop working. The annotations stay.", "End assignment")))
      return;
    try {
      await this.calls.post("assignments/remove", { id: one.id });
      this.showMessage();
      await this.load();
      this.more.focus();
    } catch (error) {
      this.showMessage(error.message);
    }
  }

  begin() {
    const field = (name, text, input) =>
      h("div", { class: `field ${name}` }, h("label", { for: input.id, text }), input);
    const line = (name, attributes = {}) =>
      h("input", { type: "text", id: `assignment-${name}`, autocomplete: "off", ...attributes });
    this.title = line("title", { maxlength: 200, required: true });
    this.task = h("textarea", { id: "assignment-task", rows: 2, maxlength: 4000 });
    this.people = line("people", { maxlength: 3000, required: true });
    this.layers = h("div", { class: "assignment-layers" });
    this.addLayer(DEFAULT_LAYER);
    this.blind = h("input", { type: "checkbox", id: "assignment-blind", checked: true });
    const { names, text } = this.chosen();
    this.form.replaceChildren(
      h("p", { class: "muted about", text }),
      field("title", "Title", this.title),
      field("task", "Instructions", this.task),
      field("people", "Annotators, separated by commas", this.people),
      h(
        "label",
        { class: "tick", for: this.blind.id },
        this.blind,
        "Blind: annotators get sound and text only, not the title, voice, segments or probabilities",
      ),
      this.layers,
      h(
        "div",
        { class: "actions" },
        button("Add another layer", () => this.addLayer({ name: "", kind: "regions", labels: "" }).focus()),
      ),
      h(
        "div",
        { class: "actions" },
        h("button", { type: "submit", class: "primary", text: "Create assignment", disabled: !names.length }),
        button("Cancel", () => this.leave()),
      ),
    );
    this.form.hidden = false;
    this.more.hidden = true;
    this.title.focus();
  }

  /** Update an open form after the selection has changed. */
  selectionChanged() {
    if (this.form.hidden) return;
    const { names, text } = this.chosen();
    this.form.querySelector(".about").textContent = text;
    this.form.querySelector("button[type=submit]").disabled = !names.length;
  }

  addLayer({ name, kind, labels }) {
    const number = this.layers.children.length + 1;
    const input = (what, value, maxlength) =>
      Object.assign(
        h("input", { type: "text", id: `assignment-${what}-${number}`, name: what, maxlength, autocomplete: "off" }),
        { value },
      );
    const kinds = h(
      "select",
      { id: `assignment-kind-${number}`, name: "kind" },
      new Option("regions", "regions"),
      new Option("points", "points"),
    );
    kinds.value = kind;
    const fields = [
      ["Layer", input("name", name, 80)],
      ["Kind", kinds],
      ["Labels, separated by commas", input("labels", labels, 4000)],
    ];
    this.layers.append(
      h(
        "div",
        { class: "layer-row" },
        ...fields.map(([text, one]) => h("div", { class: "field" }, h("label", { for: one.id, text }), one)),
      ),
    );
    return fields[0][1];
  }

  leave() {
    this.form.hidden = true;
    this.more.hidden = false;
    this.more.focus();
  }

  async create(event) {
    event.preventDefault();
    const rows = [...this.layers.children].map((row) =>
      Object.fromEntries(
        ["name", "kind", "labels"].map((name) => [name, row.querySelector(`[name=${name}]`).value.trim()]),
      ),
    );
    const layers = rows
      .filter(({ name }) => name)
      .map(({ name, kind, labels }) => ({ name, kind, labels: splitList(labels) }));
    const utterances = this.chosen().names.slice(0, MAX_UTTERANCES);
    try {
      const created = await this.calls.post("assignments", {
        title: this.title.value.trim(),
        task: this.task.value.trim(),
        layers,
        utterances,
        annotators: splitList(this.people.value),
        is_blind: this.blind.checked,
      });
      this.leave();
      this.showMessage("Created. Each annotator's link is listed below.", "info");
      await this.load();
      const first = [...this.list.querySelectorAll("details")].find((one) =>
        one.querySelector("summary").textContent.startsWith(created.title),
      );
      if (first) first.open = true;
    } catch (error) {
      this.showMessage(error.message);
    }
  }
}
