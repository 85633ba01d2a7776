// Who hears how much, what raters read, and what stands before and between the screens.

import { button, h } from "../rate/dom.js";
import { area, check, choice, count, labelled, line, number, row, section } from "./fields.js";

const HALF_WIDTHS = { mos: 0.2, mushra: 5, cmos: 0.2, preference: 0.05 };
const UNITS = { mos: "steps of the scale", mushra: "points", cmos: "steps of the scale", preference: "as a share: 0.05 is 5%" };

export class Raters {
  constructor(page, settings, changed) {
    Object.assign(this, { page, settings, changed });
    this.quota = number(settings, "raters_per_stimulus", changed, { low: 1, high: 10000 });
    this.total = h("p", { class: "muted", role: "status" });
    this.planned = h("div", { role: "status" });
    this.element = section(
      "Raters",
      "",
      row(
        labelled("Raters for each screen", this.quota, "a sound, a pair or a page, as the kind has it"),
        labelled("Screens for each rater", number(settings, "trials_per_sitting", changed, { low: 1, high: 500 })),
        labelled("A break after", number(settings, "break_after", changed, { low: 0, high: 500 }), "screens; 0 for none"),
        labelled("Shown twice", number(settings, "repeats", changed, { low: 0, high: 50 }), "screens, for self-consistency"),
      ),
      this.total,
      ...this.sitting(),
      this.planForm(),
    );
  }

  /** The test that follows in the same sitting, chosen from the owner's others. */
  sitting() {
    const { settings, changed } = this;
    this.others = [];
    this.then = choice(settings, "then", [], () => (this.drawFollowing(), changed()));
    this.following = h("p", { class: "follows", role: "status" });
    const field = labelled("Goes on with", this.then, "another of your tests, in the same sitting: scores first, say, and then a choice between pairs");
    return this.page.state.kind === "arena" ? [] : [row(field), this.following];
  }

  drawFollowing() {
    const { then } = this.settings;
    const next = this.others.find(({ name }) => name === then);
    const told = !then ? "" : !next ? `No test is called ${then} any more.` : next.but ? `${then} ${next.but}. Raters agree once, for all parts.` : next.state === "open" ? "" : `${then} is ${next.state === "draft" ? "a draft" : "closed"}: open it before this one.`;
    this.following.textContent = told;
    this.following.hidden = !told;
  }

  /** What there is to choose; a name that is no test's stays until another is chosen. */
  offer(others) {
    this.others = others;
    const { then } = this.settings;
    const lost = then && !others.some(({ name }) => name === then) ? [[then, `${then} (no such test)`]] : [];
    const options = [["", "no other test"], ...lost, ...others.map(({ name, kind, state }) => [name, `${name} · ${kind} · ${state}`])];
    const key = JSON.stringify(options);
    if (this.offered !== key) this.then.replaceChildren(...options.map(([value, text]) => h("option", { value, text })));
    this.offered = key;
    this.then.value = then;
    this.drawFollowing();
  }

  update({ units, sittings, answers, not_ready: unready, others }) {
    this.offer(others);
    const each = this.settings.raters_per_stimulus;
    this.total.textContent = units ? `${count(units, "screen")} × ${count(each, "rater")} = ${answers} answers; ${count(sittings, "rater")} if all finish.` : unready.length ? "How many answers that makes is known when the test is ready." : "";
  }

  planForm() {
    const test = this.page.state.planned_as;
    if (!test) return null;
    const asked = { half: HALF_WIDTHS[test] };
    const field = number(asked, "half", () => {}, { low: 0.001, high: 100, step: "any" });
    const go = button("Plan", () => this.plan(asked.half));
    return h("details", { class: "plan" }, h("summary", { text: "How many raters are needed?" }), row(labelled("Half width of the 95% intervals", field, UNITS[test])), h("div", { class: "actions" }, go), this.planned);
  }

  async plan(half) {
    this.planned.replaceChildren(h("p", { class: "muted", text: "Simulating tests…" }));
    const { plan, error, ...found } = await this.page.asked("/plan", { half_width: half });
    if (error) return void this.planned.replaceChildren(h("p", { text: error }));
    const what = ["cmos", "preference"].includes(found.test) ? "pairs" : "systems";
    const use = button(`Use ${count(found.raters_per_stimulus, "rater")} for each screen`, () => {
      this.quota.value = this.settings.raters_per_stimulus = found.raters_per_stimulus;
      this.changed();
    });
    const tried = plan.curve.map(([raters, width]) => h("tr", {}, h("th", { scope: "row", text: String(raters) }), h("td", { text: `± ${width.toFixed(3)}` })));
    this.planned.replaceChildren(
      h("p", { text: `${count(plan.raters, "rater")} give ± ${plan.half_width.toFixed(3)} or less for all ${what} in ${Math.round(100 * plan.sure)}% of simulated tests, with ${count(found.items, "text")}, of which each rater hears ${Math.round(100 * found.share)}%.` }),
      h("div", { class: "actions" }, use),
      h("details", {}, h("summary", { text: "Every number that was tried" }), h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Raters" }), h("th", { scope: "col", text: "Half width" }))), h("tbody", {}, ...tried))),
      h("p", { class: "muted", text: "With usual variances, as studio campaign plan; its --pilot takes those of a campaign of yours." }),
    );
    return undefined;
  }
}

export function words(settings, changed) {
  const { texts } = settings;
  return section(
    "What raters read",
    "",
    row(labelled("Title", line(texts, "title", changed, { maxlength: 200 })), labelled("Language", line(texts, "language", changed, { maxlength: 12 }), "en, de, fr, es, ja: the page's own words")),
    labelled("Instructions", area(texts, "instructions", changed, { rows: 7 })),
    h("details", {}, h("summary", { text: "Consent and thanks" }), labelled("Consent", area(texts, "consent", changed, { rows: 12 }), "shown first; nothing is kept of anybody who does not agree"), row(labelled("Version of the consent", number(texts, "consent_version", changed, { low: 1, high: 9999 }))), labelled("Thanks", area(texts, "thanks", changed, { rows: 3 }))),
  );
}

export class Checks {
  constructor(settings, changed) {
    Object.assign(this, { settings, changed });
    const { gates } = settings;
    this.screens = h("div", { class: "questions" });
    this.drawScreens();
    const share = (of, name, text, hint) => labelled(text, number(of, name, changed, { low: 0, high: 1, step: "any" }), hint);
    this.element = section(
      "Before and between the screens",
      "",
      row(labelled("Headphone check", choice(gates, "headphones", [["none", "none"], ["woods", "tones (Woods 2017)"], ["huggins", "Huggins pitch (Milne 2020)"]], changed)), share(settings, "must_listen", "Share of a sound to be heard", "before the answer may be sent; 1 is all of it")),
      row(check(gates, "headphones_required", "Who fails the headphone check goes", changed), check(gates, "environment", "Environment test (P.808)", changed), check(gates, "environment_required", "Who fails the environment test goes", changed)),
      row(check(gates, "level", "Raters set the volume first", changed), check(gates, "pace", "Leave out who answers sooner than the sounds last", changed), check(settings, "narrowband", "Take telephone speech of 8 kHz", changed)),
      h("h3", { text: "Screening" }),
      this.screens,
      h("div", { class: "actions" }, button("Add a screening question", () => this.add())),
      h("details", {}, h("summary", { text: "Practice, traps, golds and consistency" }), row(...[["training", "Practice clips a sitting"], ["traps", "Traps a sitting"], ["golds", "Golds a sitting"]].map(([name, text]) => labelled(text, number(gates, name, changed, { low: 0, high: 50 }))), labelled("Least variance of scores", number(gates, "min_variance", changed, { low: 0, step: "any" }), "0 judges nobody"), share(gates, "max_repeat_distance", "Most distance of repeats", "share of the scale; 0 judges nobody"))),
      h(
        "details",
        {},
        h("summary", { text: "Agreement with the others" }),
        row(
          share(gates, "min_consensus", "Least correlation", "of a rater's answers with the mean of the others'; 0 judges nobody"),
          labelled("Fewest answers", number(gates, "consensus_answers", changed, { low: 3, high: 10000 }), "of a rater who is judged"),
          labelled("Others' means are of", choice(gates, "consensus_by", [["stimulus", "each sound or pair"], ["system", "each system, over all texts"]], changed)),
        ),
        check(gates, "consensus_required", "Leave out who is below it", changed),
      ),
    );
  }

  drawScreens() {
    this.screens.replaceChildren(...this.settings.gates.screening.map((screen, k) => this.screen(screen, k)));
  }

  add() {
    const { screening } = this.settings.gates;
    const id = ["native", ...Array.from({ length: 50 }, (_, k) => `screening${k + 1}`)].find((one) => !screening.some((s) => s.id === one));
    screening.push({ id, prompt: "", options: ["Yes", "No"], accept: [] });
    this.drawScreens();
    this.changed();
  }

  screen(screen, k) {
    const { changed } = this;
    const lists = { options: screen.options.join("\n"), accept: screen.accept.join("\n") };
    const split = (name) => () => {
      screen[name] = lists[name].split("\n").map((one) => one.trim()).filter(Boolean);
      changed();
    };
    const drop = button("Remove this question", () => (this.settings.gates.screening.splice(k, 1), this.drawScreens(), changed()), { class: "quiet" });
    return h("fieldset", { class: "question" }, h("legend", { text: `Screening ${k + 1}` }), row(labelled("Name", line(screen, "id", changed, { maxlength: 40 })), labelled("Question", line(screen, "prompt", changed))), row(labelled("Answers, one a line", area(lists, "options", split("options"), { rows: 3 })), labelled("Those who go on, one a line", area(lists, "accept", split("accept"), { rows: 3 }), "empty: all")), drop);
  }
}

/** Where a panel's raters go, and when the test closes itself. */
export function panel(settings, changed) {
  const { completion, stop } = settings;
  const way = (of, text) => row(labelled(`Code: ${text}`, nullable(of, "code", changed, 120)), labelled(`Address: ${text}`, nullable(of, "redirect_url", changed, 1000, "https://…")));
  const looks = { text: stop.looks.join(", ") };
  const looked = () => {
    stop.looks = looks.text.split(/[ ,;]+/).filter(Boolean).map(Number);
    changed();
  };
  return section(
    "Panel and stopping",
    "",
    h("details", {}, h("summary", { text: "Ways out for a panel (Prolific)" }), way(completion, "finished"), way(completion.screened_out, "screened out"), way(completion.full, "all places taken"), way(completion.refused, "did not agree")),
    h("details", {}, h("summary", { text: "Stopping rule" }), row(labelled("Every interval at most ±", number(stop, "half_width", changed, { low: 0, step: "any", empty: true }), "empty: no such rule"), labelled("Looked at after raters", line(looks, "text", looked, { maxlength: 400 })), labelled("Spending of the error", choice(stop, "spending", [["obrien_fleming", "O'Brien–Fleming"], ["pocock", "Pocock"]], changed))), row(check(stop, "decided", "Every pair of systems differs beyond doubt", changed))),
  );
}

/** A line that is null where it is empty. */
function nullable(of, name, changed, maxlength, placeholder = "") {
  const taken = { value: of[name] ?? "" };
  return line(taken, "value", () => ((of[name] = taken.value.trim() || null), changed()), { maxlength, placeholder });
}
