// Checks of raters: hearing, screening, practice, traps, consistency and agreement.

import { button, h } from "../rate/dom.js";
import { area, check, choice, labelled, line, number, row, section } from "./fields.js";

export class Checks {
  constructor(settings, changed) {
    this.settings = settings;
    this.changed = changed;
    const { gates } = settings;
    this.screens = h("div", { class: "questions" });
    this.drawScreens();
    const share = (of, name, text, hint) =>
      labelled(text, number(of, name, changed, { low: 0, high: 1, step: "any" }), hint);
    this.element = section(
      "Before and between the screens",
      "",
      row(
        labelled(
          "Headphone check",
          choice(
            gates,
            "headphones",
            [
              ["none", "none"],
              ["woods", "tones (Woods 2017)"],
              ["huggins", "Huggins pitch (Milne 2020)"],
            ],
            changed,
          ),
        ),
        share(settings, "must_listen", "Required share of each sound", "must be heard before answering; 1 = all of it"),
      ),
      row(
        check(gates, "headphones_required", "Exclude raters who fail the headphone check", changed),
        check(gates, "environment", "Environment test (P.808)", changed),
        check(gates, "environment_required", "Exclude raters who fail the environment test", changed),
      ),
      row(
        check(gates, "level", "Raters set the volume first", changed),
        check(gates, "pace", "Exclude raters who answer faster than the sounds play", changed),
        check(settings, "narrowband", "Accept 8 kHz telephone speech", changed),
        check(settings, "incomplete", "Systems may lack texts", changed),
        labelled(
          "Level of the sounds",
          choice(
            settings,
            "levels",
            [
              ["integrated", "one loudness (BS.1770)"],
              ["active", "one active speech level (P.56)"],
              ["keep", "as in the files"],
            ],
            changed,
          ),
        ),
      ),
      h("h3", { text: "Screening" }),
      this.screens,
      h(
        "div",
        { class: "actions" },
        button("Add a screening question", () => this.add()),
      ),
      h(
        "details",
        {},
        h("summary", { text: "Practice, traps, golds and consistency" }),
        row(
          ...[
            ["training", "Practice clips per session"],
            ["traps", "Traps per session"],
            ["golds", "Golds per session"],
          ].map(([name, text]) => labelled(text, number(gates, name, changed, { low: 0, high: 50 }))),
          labelled(
            "Minimum variance of scores",
            number(gates, "min_variance", changed, { low: 0, step: "any" }),
            "0 = off",
          ),
          labelled(
            "Side bias: p below",
            number(gates, "side_bias", changed, { low: 0, high: 0.2, step: "any" }),
            "0 = off",
          ),
          labelled(
            "Missed traps that allow a rejection",
            number(gates, "reject_after", changed, { low: 1, high: 20 }),
            "panels require 2, and 1 in studies of up to five minutes",
          ),
          share(gates, "max_repeat_distance", "Maximum distance of repeats", "share of the scale; 0 = off"),
        ),
      ),
      h(
        "details",
        {},
        h("summary", { text: "Agreement with the others" }),
        row(
          share(
            gates,
            "min_consensus",
            "Minimum correlation",
            "of a rater's answers with the mean of the others; 0 = off",
          ),
          labelled(
            "Minimum answers",
            number(gates, "consensus_answers", changed, { low: 3, high: 10000 }),
            "before a rater is checked",
          ),
          labelled(
            "Means of the others over",
            choice(
              gates,
              "consensus_by",
              [
                ["stimulus", "each sound or pair"],
                ["system", "each system, over all texts"],
              ],
              changed,
            ),
          ),
        ),
        check(gates, "consensus_required", "Exclude raters below it", changed),
      ),
    );
  }

  drawScreens() {
    this.screens.replaceChildren(...this.settings.gates.screening.map((screen, k) => this.screen(screen, k)));
  }

  add() {
    const { screening } = this.settings.gates;
    const id = ["native", ...Array.from({ length: 50 }, (_, k) => `screening${k + 1}`)].find(
      (one) => !screening.some((s) => s.id === one),
    );
    screening.push({
      id,
      prompt: "",
      options: ["Yes", "No"],
      accept: [],
      answer: "choice",
      low: null,
      high: null,
      optional: false,
    });
    this.drawScreens();
    this.changed();
  }

  screen(screen, k) {
    const { changed } = this;
    const lists = { options: screen.options.join("\n"), accept: screen.accept.join("\n") };
    const split = (name) => () => {
      screen[name] = lists[name]
        .split("\n")
        .map((one) => one.trim())
        .filter(Boolean);
      changed();
    };
    const drop = button(
      "Remove this question",
      () => {
        this.settings.gates.screening.splice(k, 1);
        this.drawScreens();
        changed();
      },
      { class: "quiet" },
    );
    return h(
      "fieldset",
      { class: "question" },
      h("legend", { text: `Screening ${k + 1}` }),
      row(
        labelled("Name", line(screen, "id", changed, { maxlength: 40 })),
        labelled("Question", line(screen, "prompt", changed)),
        labelled(
          "Answer",
          choice(
            screen,
            "answer",
            [
              ["choice", "one of a list"],
              ["text", "free text"],
              ["number", "a number"],
            ],
            () => {
              this.drawScreens();
              changed();
            },
          ),
        ),
        check(screen, "optional", "May be left empty", changed),
      ),
      ...this.details(screen, lists, split),
      drop,
    );
  }

  /** The options of a choice, or the limits of a number. */
  details(screen, lists, split) {
    const limit = (name, text) =>
      labelled(text, number(screen, name, this.changed, { step: "any", empty: true }), "empty = none");
    if (screen.answer === "text") return [];
    if (screen.answer === "number") return [row(limit("low", "Lowest number"), limit("high", "Highest number"))];
    return [
      row(
        labelled("Answers, one per line", area(lists, "options", split("options"), { rows: 3 })),
        labelled("Accepted answers, one per line", area(lists, "accept", split("accept"), { rows: 3 }), "empty = all"),
      ),
    ];
  }
}
