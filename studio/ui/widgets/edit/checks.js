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
    screening.push({ id, prompt: "", options: ["Yes", "No"], accept: [] });
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
      ),
      row(
        labelled("Answers, one per line", area(lists, "options", split("options"), { rows: 3 })),
        labelled("Accepted answers, one per line", area(lists, "accept", split("accept"), { rows: 3 }), "empty = all"),
      ),
      drop,
    );
  }
}
