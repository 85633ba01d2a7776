// Questions of a test: prompts, scale labels, pair choices, and the selection of pairs.

import { button, h } from "../rate/dom.js";
import { area, check, choice, labelled, line, number, row, section } from "./fields.js";

const MAX_STEPS = 11; // longer scales use a slider with labels only at its ends
// Number of questions per kind, and whether its scale is fixed and it compares pairs.
const KINDS = {
  acr: { least: 1, most: 9 },
  dcr: { least: 1, most: 9, isFixed: true },
  ccr: { least: 1, most: 9, isPair: true, isSigned: true },
  p835: { least: 3, most: 3, isFixed: true },
  scale: { least: 1, most: 1 },
  mushra: { least: 1, most: 1, isFixed: true },
  ab: { least: 0, most: 0, isPair: true, mayTie: true },
  similarity: { least: 0, most: 0, isPair: true },
  abx: { least: 0, most: 0, isPair: true },
  live: { least: 0, most: 9, isPair: true, mayTie: true },
  arena: { least: 0, most: 0, isPair: true, mayTie: true },
};

/** `known` are the questions of the templates. */
export class Questions {
  constructor(settings, kind, known, changed) {
    this.settings = settings;
    this.known = known;
    this.changed = changed;
    this.kind = KINDS[kind] ?? { least: 0, most: 9 };
    this.name = kind;
    this.list = h("div", { class: "questions" });
    this.adds = h("div", { class: "actions" });
    this.baseline = h("datalist", { id: "edit-baseline" });
    this.element = section(
      "Questions",
      this.kind.most ? "" : "This kind asks one question about each pair; its answers are fixed.",
      ...this.pairs(),
      this.list,
      this.adds,
    );
    this.draw();
  }

  pairs() {
    const { settings, kind, changed } = this;
    if (!kind.isPair) return [];
    const prompt =
      this.name === "ccr" ? [] : [labelled("Question about a pair", area(settings, "prompt", changed, { rows: 2 }))];
    const ties = { tie: settings.choices.includes("tie"), both_bad: settings.choices.includes("both_bad") };
    const tied = () => {
      settings.choices = ["a", "b", ...["tie", "both_bad"].filter((one) => ties[one])];
      changed();
    };
    const tieChecks = kind.mayTie
      ? [row(check(ties, "tie", "Allow “no difference”", tied), check(ties, "both_bad", "Allow “both are bad”", tied))]
      : [];
    const form = { baseline: settings.baseline ?? "" };
    const setBaseline = () => {
      settings.baseline = form.baseline.trim() || null;
      changed();
    };
    const base = line(form, "baseline", setBaseline, {
      list: "edit-baseline",
      maxlength: 80,
    });
    const which = choice(
      settings,
      "pairs",
      [
        ["all", "All pairs of systems"],
        ["baseline", "Each system against a baseline"],
      ],
      () => {
        show();
        changed();
      },
    );
    const field = labelled("Baseline system", base);
    const show = () => (field.hidden = settings.pairs !== "baseline");
    show();
    return [...prompt, ...tieChecks, row(labelled("Pairs", which), field), this.baseline];
  }

  update({ systems }) {
    this.baseline.replaceChildren(...systems.map(({ name }) => h("option", { value: name })));
  }

  draw() {
    const { questions } = this.settings;
    this.list.replaceChildren(...questions.map((question, k) => this.question(question, k)));
    const isRoom = questions.length < this.kind.most;
    const free = this.known.filter((one) => !questions.some(({ id }) => id === one.id));
    const own = { id: "", prompt: "", low: this.kind.isSigned ? -3 : 1, high: this.kind.isSigned ? 3 : 5, labels: {} };
    const offers = this.kind.isFixed || this.kind.isSigned ? [] : free.map((one) => this.add(`Add ${one.id}`, one));
    const fixed = this.known.find(({ low, high }) => this.kind.isFixed && high > low);
    const blank = this.add(
      "Add a custom question",
      this.kind.isFixed && fixed ? { ...own, low: fixed.low, high: fixed.high } : own,
    );
    this.adds.replaceChildren(...(isRoom ? [...offers, blank] : []));
  }

  add(text, question) {
    return button(text, () => {
      const { questions } = this.settings;
      const id =
        question.id ||
        ["question", ...Array.from({ length: 9 }, (_, k) => `question${k + 2}`)].find(
          (one) => !questions.some((q) => q.id === one),
        );
      questions.push({ ...structuredClone(question), id });
      this.redraw();
      this.list.lastElementChild.querySelector("textarea").focus();
    });
  }

  redraw() {
    this.draw();
    this.changed();
  }

  question(question, k) {
    const { settings, kind, changed } = this;
    const words = h("div", { class: "steps" });
    const rescaled = () => {
      for (const step of Object.keys(question.labels))
        if (Number(step) < question.low || Number(step) > question.high) delete question.labels[step];
      this.words(words, question);
      changed();
    };
    this.words(words, question);
    const scale = kind.isFixed
      ? h("p", { class: "muted", text: `The scale of this kind is ${question.low} to ${question.high}.` })
      : row(
          labelled("Lowest score", number(question, "low", rescaled, { low: -100, high: 99 })),
          labelled("Highest score", number(question, "high", rescaled, { low: -99, high: 100 })),
          this.preset(question, rescaled),
        );
    const drop = button(
      "Remove this question",
      () => {
        settings.questions.splice(k, 1);
        this.redraw();
      },
      {
        class: "quiet",
      },
    );
    return h(
      "fieldset",
      { class: "question" },
      h("legend", { text: `Question ${k + 1}` }),
      row(
        labelled("Attribute", line(question, "id", changed, { maxlength: 40 }), "its name in tables and exports"),
        labelled("Question", area(question, "prompt", changed, { rows: 2 })),
      ),
      scale,
      words,
      settings.questions.length > kind.least ? drop : null,
    );
  }

  /** Copy the labels of a template's question. */
  preset(question, changed) {
    const fitting = this.known.filter(
      ({ labels, low, high }) => Object.keys(labels ?? {}).length && high - low < MAX_STEPS,
    );
    if (!fitting.length) return null;
    const selection = { of: "" };
    const field = choice(
      selection,
      "of",
      [["", "as entered below"], ...fitting.map(({ id }) => [id, `as for ${id}`]), ["none", "numbers only"]],
      () => {
        const { low, high, labels } = fitting.find(({ id }) => id === selection.of) ?? { ...question, labels: {} };
        Object.assign(question, { low, high, labels: { ...labels } });
        changed();
        this.draw();
      },
    );
    return labelled("Step labels", field);
  }

  words(box, question) {
    const { low, high, labels } = question;
    const steps =
      high - low < MAX_STEPS ? Array.from({ length: Math.max(0, high - low + 1) }, (_, k) => low + k) : [low, high];
    const labelField = (step) => {
      const field = h("input", {
        type: "text",
        maxlength: 80,
        on: { input: () => this.setLabel(labels, step, field.value) },
      });
      field.value = labels[step] ?? "";
      return labelled(String(step), field);
    };
    box.replaceChildren(
      h("p", { class: "muted", text: "Labels of the steps. A step without a label shows only its number." }),
      ...(this.name === "mushra" ? [] : steps.map(labelField)),
    );
    box.hidden = this.name === "mushra"; // the recommendation fixes its bands
  }

  setLabel(labels, step, text) {
    if (text.trim()) labels[step] = text;
    else delete labels[step];
    this.changed();
  }
}
