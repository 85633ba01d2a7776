// Number of raters and screens, the test that follows, and the plan of how many raters are needed.

import { counted } from "../page/plurals.js";
import { button, h } from "../rate/dom.js";
import { check, choice, labelled, number, row, section } from "./fields.js";

const HALF_WIDTHS = { mos: 0.2, mushra: 5, cmos: 0.2, preference: 0.05 };
const MARGINS = { mos: 0.2, mushra: 5, cmos: 0.3, preference: 0.1 };
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
        check(settings, "replace_excluded", "Replace raters who are excluded", changed),
        labelled(
          "Break every … screens",
          number(settings, "break_after", changed, { low: 0, high: 500 }),
          "0 = no breaks",
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
      ? `${counted(units, "screen")} × ${counted(each, "rater")} = ${counted(answers, "answer")}; ${counted(sittings, "rater")} if all finish.`
      : unready.length
        ? "The number of answers is shown once the test is ready."
        : "";
  }

  planForm() {
    const test = this.page.state.planned_as;
    if (!test) return null;
    const target = { half_width: HALF_WIDTHS[test], margin: MARGINS[test] };
    const field = (name) => number(target, name, () => {}, { low: 0.001, high: 100, step: "any" });
    const go = (name) => button("Plan", () => this.plan({ [name]: target[name] }));
    return h(
      "details",
      { class: "plan" },
      h("summary", { text: "How many raters are needed?" }),
      row(labelled("Half width of the 95% intervals", field("half_width"), UNITS[test])),
      h("div", { class: "actions" }, go("half_width")),
      row(labelled("Or: no worse by more than", field("margin"), UNITS[test])),
      h("div", { class: "actions" }, go("margin")),
      this.planned,
    );
  }

  async plan(aim) {
    this.planned.replaceChildren(h("p", { class: "muted", text: "Simulating tests…" }));
    const { plan, error, ...result } = await this.page.query("/plan", aim);
    if (error) return void this.planned.replaceChildren(h("p", { text: error }));
    const use = button(`Use ${counted(result.raters_per_stimulus, "rater")} for each screen`, () => {
      this.quota.value = this.settings.raters_per_stimulus = result.raters_per_stimulus;
      this.changed();
    });
    const { ask } = result; // of a margin
    const { items, share } = ask ?? result;
    const format = (value) => (ask ? `${Math.round(100 * value)}%` : `± ${value.toFixed(3)}`);
    const rows = plan.curve.map(([raters, value]) =>
      h("tr", {}, h("th", { scope: "row", text: String(raters) }), h("td", { text: format(value) })),
    );
    this.planned.replaceChildren(
      h("p", {
        text: `${outcome(plan, result)}, with ${counted(items, "text")}, of which each rater hears ${Math.round(100 * share)}%.`,
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
            h(
              "tr",
              {},
              h("th", { scope: "col", text: "Raters" }),
              h("th", { scope: "col", text: ask ? "Power" : "Half width" }),
            ),
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

/** What a planned number of raters gives, for a half-width or a margin. */
function outcome(plan, { test, ask }) {
  const raters = counted(plan.raters, "rater");
  if (!ask) {
    const what = ["cmos", "preference"].includes(test) ? "pairs" : "systems";
    return `${raters} give ± ${plan.half_width.toFixed(3)} or less for all ${what} in ${Math.round(100 * plan.sure)}% of simulated tests`;
  }
  const each = ask.claims > 1 ? `each of ${ask.claims} systems is` : "one of two equal systems is";
  return `${raters} show in ${Math.round(100 * plan.power)}% of simulated tests that ${each} no worse by more than ${ask.margin}`;
}
