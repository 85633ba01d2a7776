// Owner's tools: import and export of annotations, inter-annotator agreement.

import { counted } from "../../page/plurals.js";
import { button, h } from "../../rate/dom.js";

const FORMATS = [
  ["textgrid", "Praat TextGrid", ".TextGrid"],
  ["audacity", "Audacity labels", ".txt"],
  ["labelstudio", "Label Studio", ".json"],
  ["eaf", "ELAN", ".eaf"],
  ["csv", "CSV", ".csv"],
];
const formatOf = (name) => FORMATS.find(([, , ending]) => name.toLowerCase().endsWith(ending.toLowerCase()))?.[0] ?? "";
const figure = ({ value, undefined: why }) =>
  value === null ? h("span", { title: why, text: "–" }) : value.toFixed(2);

export class ImportExport {
  constructor(annotator) {
    this.annotator = annotator;
    this.format = h("select", { id: "annotation-format" }, ...FORMATS.map(([name, title]) => new Option(title, name)));
    this.file = h("input", {
      type: "file",
      id: "annotation-file",
      class: "sr-only",
      accept: FORMATS.map(([, , ending]) => ending).join(","),
      on: { change: () => this.upload() },
    });
    this.status = h("p", { class: "message", role: "status" });
    this.layer = h("select", { id: "annotation-agreement", on: { change: () => this.compare() } });
    this.collar = h("input", {
      type: "number",
      id: "annotation-collar",
      min: 0,
      max: 10000,
      step: 1,
      on: { change: () => this.compare() },
    });
    this.collar.value = 20;
    this.table = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Agreement" });
    const files = h(
      "div",
      { class: "actions" },
      h("label", { class: "snap", for: "annotation-format", text: "Format" }),
      this.format,
      button("Download", () => this.download()),
      this.file,
      h("label", { class: "button", for: "annotation-file", text: "Add layers from a file" }),
    );
    this.agreement = h(
      "details",
      { on: { toggle: () => this.agreement.open && this.compare() } },
      h("summary", { text: "Inter-annotator agreement" }),
      h(
        "div",
        { class: "actions" },
        h("label", { class: "snap", for: "annotation-agreement", text: "Layer" }),
        this.layer,
        h("label", { class: "snap", for: "annotation-collar", text: "boundary tolerance (ms)" }),
        this.collar,
      ),
      this.table,
    );
    this.element = h("div", { class: "exchange" }, files, this.status, this.agreement);
  }

  async download() {
    const name = this.format.value;
    await this.report(async () => {
      await this.annotator.source.download(name, FORMATS.find(([one]) => one === name)[2]);
      return "";
    });
  }

  upload() {
    const [file] = this.file.files;
    this.file.value = "";
    return this.report(async () => {
      const format = formatOf(file.name);
      if (!format)
        throw new Error(`${file.name} must end with one of ${FORMATS.map(([, , ending]) => ending).join(", ")}.`);
      if (!this.annotator.saver.isSaved) throw new Error("Wait until all changes are saved, then try again.");
      const before = this.annotator.document.layers.size;
      this.annotator.loaded(await this.annotator.source.upload(file, format));
      const count = this.annotator.document.layers.size - before;
      return `${counted(count, "layer")} added from ${file.name}.`;
    });
  }

  async report(work) {
    try {
      this.status.textContent = await work();
    } catch (error) {
      this.status.textContent = error.message;
    }
  }

  /** Show the agreement table, and draw unmatched marks as dashed. */
  async compare() {
    try {
      const layers = await this.annotator.source.shared();
      const name = layers.includes(this.layer.value) ? this.layer.value : layers[0];
      this.layer.replaceChildren(...layers.map((one) => new Option(one)));
      if (!name)
        return this.table.replaceChildren(
          h("p", { class: "muted", text: "Agreement needs a layer of the same name from at least two annotators." }),
        );
      this.layer.value = name;
      const agreement = await this.annotator.source.agreement(name, this.collar.value);
      this.annotator.markUnmatched(agreement.pairs);
      return this.table.replaceChildren(
        this.figures(agreement),
        h("p", {
          class: "muted",
          text: "F1: matched boundaries. Labels and 10 ms: Cohen's kappa over matched marks and over 10 ms steps. All: mean F1 and Krippendorff's alpha. Dashed marks in the timeline have no match in any other annotator's layer.",
        }),
      );
    } catch (error) {
      return this.table.replaceChildren(h("p", { class: "wrong", text: error.message }));
    }
  }

  figures({ pairs, f1, alpha_marks: marks, alpha_frames: frames }) {
    const head = ["annotators", "both", "only 1st", "only 2nd", "F1", "labels", "10 ms"].map((text) =>
      h("th", { scope: "col", text }),
    );
    const row = (name, cells) =>
      h("tr", {}, h("th", { scope: "row", text: name }), ...cells.map((cell) => h("td", {}, cell)));
    const rows = pairs.map((pair) =>
      row(`${pair.one}, ${pair.other}`, [
        String(pair.matched),
        String(pair.only_one.length),
        String(pair.only_other.length),
        figure(pair.f1),
        figure(pair.kappa_marks),
        figure(pair.kappa_frames),
      ]),
    );
    if (pairs.length) rows.push(row("all", ["", "", "", figure(f1), figure(marks), figure(frames)]));
    return h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
  }
}
