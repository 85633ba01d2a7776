// Settings of raters, rater texts, checks, panel and stopping rules.

import { button, h } from "../rate/dom.js";
import { area, check, choice, count, labelled, line, number, row, section } from "./fields.js";

const HALF_WIDTHS = { mos: 0.2, mushra: 5, cmos: 0.2, preference: 0.05 };
const UNITS = {
  mos: "steps of the scale",
  mushra: "points",
  cmos: "steps of the scale",
  preference: "as a share: 0.05 is 5%",
};

export class Raters {
  constructor(page, settings, changed) {
    this.page = page;
    this.settings = settings;
    this.changed = changed;
    this.quota = number(settings, "raters_per_stimulus", changed, { low: 1, high: 10000 });
    this.total = h("p", { class: "muted", role: "status" });
    this.planned = h("div", { role: "status" });
    this.element = section(
      "Raters",
      "",
      row(
        labelled("Raters for each screen", this.quota, "a screen is a sound, a pair or a page, depending on the kind"),
        labelled("Screens for each rater", number(settings, "trials_per_sitting", changed, { low: 1, high: 500 })),
        labelled(
          "Break after",
          number(settings, "break_after", changed, { low: 0, high: 500 }),
          "screens; 0 = no breaks",
        ),
        labelled(
          "Repeated screens",
          number(settings, "repeats", changed, { low: 0, high: 50 }),
          "shown twice to measure self-consistency",
        ),
      ),
      this.total,
      ...this.followingTest(),
      this.planForm(),
    );
  }

  /** The test that follows in the same rater session. */
  followingTest() {
    const { settings, changed } = this;
    this.others = [];
    this.next = choice(settings, "then", [], () => {
      this.drawFollowing();
      changed();
    });
    this.following = h("p", { class: "follows", role: "status" });
    const field = labelled(
      "Followed by",
      this.next,
      "another of your tests, in the same rater session; for example scores, then a choice between pairs",
    );
    return this.page.state.kind === "arena" ? [] : [row(field), this.following];
  }

  drawFollowing() {
    const { then } = this.settings;
    const next = this.others.find(({ name }) => name === then);
    const message = !then
      ? ""
      : !next
        ? `There is no test ${then} any more.`
        : next.but
          ? `${then} ${next.but}. Raters give consent once, for all parts.`
          : next.state === "open"
            ? ""
            : `${then} is ${next.state === "draft" ? "a draft" : "closed"}: open it before this one.`;
    this.following.textContent = message;
    this.following.hidden = !message;
  }

  /** Update the options; an unknown name stays until another test is chosen. */
  setOptions(others) {
    this.others = others;
    const { then } = this.settings;
    const unknown = then && !others.some(({ name }) => name === then) ? [[then, `${then} (no such test)`]] : [];
    const options = [
      ["", "no other test"],
      ...unknown,
      ...others.map(({ name, kind, state }) => [name, `${name} · ${kind} · ${state}`]),
    ];
    const key = JSON.stringify(options);
    if (this.optionsKey !== key)
      this.next.replaceChildren(...options.map(([value, text]) => h("option", { value, text })));
    this.optionsKey = key;
    this.next.value = then;
    this.drawFollowing();
  }

  update({ units, sittings, answers, not_ready: unready, others }) {
    this.setOptions(others);
    const each = this.settings.raters_per_stimulus;
    this.total.textContent = units
      ? `${count(units, "screen")} × ${count(each, "rater")} = ${answers} answers; ${count(sittings, "rater")} if all finish.`
      : unready.length
        ? "The number of answers is shown once the test is ready."
        : "";
  }

  planForm() {
    const test = this.page.state.planned_as;
    if (!test) return null;
    const target = { half: HALF_WIDTHS[test] };
    const field = number(target, "half", () => {}, { low: 0.001, high: 100, step: "any" });
    const go = button("Plan", () => this.plan(target.half));
    return h(
      "details",
      { class: "plan" },
      h("summary", { text: "How many raters are needed?" }),
      row(labelled("Half width of the 95% intervals", field, UNITS[test])),
      h("div", { class: "actions" }, go),
      this.planned,
    );
  }

  async plan(half) {
    this.planned.replaceChildren(h("p", { class: "muted", text: "Simulating tests…" }));
    const { plan, error, ...result } = await this.page.query("/plan", { half_width: half });
    if (error) return void this.planned.replaceChildren(h("p", { text: error }));
    const what = ["cmos", "preference"].includes(result.test) ? "pairs" : "systems";
    const use = button(`Use ${count(result.raters_per_stimulus, "rater")} for each screen`, () => {
      this.quota.value = this.settings.raters_per_stimulus = result.raters_per_stimulus;
      this.changed();
    });
    const rows = plan.curve.map(([raters, width]) =>
      h("tr", {}, h("th", { scope: "row", text: String(raters) }), h("td", { text: `± ${width.toFixed(3)}` })),
    );
    this.planned.replaceChildren(
      h("p", {
        text: `${count(plan.raters, "rater")} give ± ${plan.half_width.toFixed(3)} or less for all ${what} in ${Math.round(100 * plan.sure)}% of simulated tests, with ${count(result.items, "text")}, of which each rater hears ${Math.round(100 * result.share)}%.`,
      }),
      h("div", { class: "actions" }, use),
      h(
        "details",
        {},
        h("summary", { text: "All simulated numbers of raters" }),
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h("tr", {}, h("th", { scope: "col", text: "Raters" }), h("th", { scope: "col", text: "Half width" })),
          ),
          h("tbody", {}, ...rows),
        ),
      ),
      h("p", {
        class: "muted",
        text: "Assumes typical variances, like studio campaign plan; its option --pilot uses those of one of your campaigns.",
      }),
    );
    return undefined;
  }
}

export function words(settings, changed) {
  const { texts } = settings;
  return section(
    "What raters read",
    "",
    row(
      labelled("Title", line(texts, "title", changed, { maxlength: 200 })),
      labelled(
        "Language",
        line(texts, "language", changed, { maxlength: 12 }),
        "language of the interface: en, de, fr, es or ja",
      ),
    ),
    labelled("Instructions", area(texts, "instructions", changed, { rows: 7 })),
    h(
      "details",
      {},
      h("summary", { text: "Consent and thanks" }),
      labelled(
        "Consent",
        area(texts, "consent", changed, { rows: 12 }),
        "shown first; nothing is stored about people who do not agree",
      ),
      row(labelled("Version of the consent", number(texts, "consent_version", changed, { low: 1, high: 9999 }))),
      labelled("Thanks", area(texts, "thanks", changed, { rows: 3 })),
    ),
  );
}

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

/** Completion links of a panel, and the stopping rule. */
export function panel(settings, changed) {
  const { completion, stop } = settings;
  const exit = (of, text) =>
    row(
      labelled(`Code: ${text}`, nullable(of, "code", changed, 120)),
      labelled(`Address: ${text}`, nullable(of, "redirect_url", changed, 1000, "https://…")),
    );
  const interim = { text: stop.looks.join(", ") };
  const changedLooks = () => {
    stop.looks = interim.text
      .split(/[ ,;]+/)
      .filter(Boolean)
      .map(Number);
    changed();
  };
  return section(
    "Panel and stopping",
    "",
    h(
      "details",
      {},
      h("summary", { text: "Completion codes for a panel (Prolific)" }),
      exit(completion, "finished"),
      exit(completion.screened_out, "screened out"),
      exit(completion.full, "quota full"),
      exit(completion.refused, "did not agree"),
    ),
    h(
      "details",
      {},
      h("summary", { text: "Stopping rule" }),
      row(
        labelled(
          "Every interval at most ±",
          number(stop, "half_width", changed, { low: 0, step: "any", empty: true }),
          "empty = off",
        ),
        labelled("Interim analyses after raters", line(interim, "text", changedLooks, { maxlength: 400 })),
        labelled(
          "Alpha spending",
          choice(
            stop,
            "spending",
            [
              ["obrien_fleming", "O'Brien–Fleming"],
              ["pocock", "Pocock"],
            ],
            changed,
          ),
        ),
      ),
      row(check(stop, "decided", "Stop when every pair of systems differs significantly", changed)),
    ),
  );
}

/** A text field whose empty value is null. */
function nullable(of, name, changed, maxlength, placeholder = "") {
  const form = { value: of[name] ?? "" };
  const update = () => {
    of[name] = form.value.trim() || null;
    changed();
  };
  return line(form, "value", update, { maxlength, placeholder });
}
