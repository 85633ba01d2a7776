// Ratings of a listening test's clip and, separately, its predicted MOS; for the test's owner.

import { counted } from "../../page/plurals.js";
import { h } from "../../rate/dom.js";

const round = (value, digits = 2) =>
  value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
const interval = ({ low, high }, digits, { times = 1, unit = "" } = {}) =>
  low === null || high === null
    ? "no interval: too few raters"
    : `95%: ${round(times * low, digits)} to ${round(times * high, digits)}${unit}`;
const PERCENT = { times: 100, unit: "%" };
const WIDE = 21; // least number of scores that are drawn in groups

/** Fill `container`; `ratings` is the route's answer. */
export function showRatings(container, ratings) {
  const { script, system, heard_at: level } = ratings;
  const role = script.role === "test" ? "" : ` · ${script.role}, not part of any mean`;
  const gain = `${level.gain_db < 0 ? "−" : "+"}${Math.abs(level.gain_db).toFixed(1)} dB`;
  const sound = ratings.has_trace
    ? "Shown here: the voice's original output"
    : "Shown here: the clip that raters heard";
  const left = ratings.left_out
    ? ` ${ratings.left_out} ${ratings.left_out === 1 ? "rater is" : "raters are"} excluded by the gates.`
    : "";
  const about = `${sound}. Playback level for raters: ${round(level.lufs, 1)} LUFS (${gain}).${left}`;
  container.replaceChildren(
    h(
      "header",
      {},
      h("h2", { text: ratings.title }),
      h("p", {
        class: "muted",
        text: `${ratings.kind} · ${script.name} by ${system.name}${system.role === "test" ? "" : ` (${system.role})`}${role}`,
      }),
    ),
    h(
      "section",
      { class: "people", "aria-label": "Ratings" },
      h("h3", { text: "Ratings" }),
      h("div", { class: "figures" }, ...people(ratings)),
      h("p", { class: "muted", text: about }),
    ),
    h(
      "section",
      { class: "foreseen", "aria-label": "Predicted MOS, not ratings" },
      h("h3", { text: "Predicted MOS, not ratings" }),
      ...predictions(ratings.predicted),
    ),
  );
  container.hidden = false;
}

function people(ratings) {
  const figures = [
    ...ratings.questions.map(scores),
    ...ratings.comparisons.map((one) =>
      figure(
        `${one.id}, against ${one.against}`,
        round(one.mean),
        `CMOS of ${counted(one.n, "rating")}, ${interval(one)}`,
        `better ${one.better}, the same ${one.same}, worse ${one.worse}`,
      ),
    ),
    ...ratings.preferences.map((one) =>
      figure(
        `Against ${one.against}`,
        `${round(100 * one.share, 0)}%`,
        `preferred, of ${one.n} ${one.n === 1 ? "vote" : "votes"}, ${interval(one, 0, PERCENT)}`,
        `won ${one.won}, lost ${one.lost}, equal ${one.ties}, both bad ${one.both_bad}`,
      ),
    ),
    ...ratings.found.map((one) =>
      figure(
        `X identified, ${one.a} and ${one.b}`,
        `${one.right} of ${one.n}`,
        "correct answers in trials with this clip",
      ),
    ),
  ];
  return figures.length ? figures : [h("p", { class: "muted", text: "No ratings of this clip yet." })];
}

function figure(title, value, ...lines) {
  return h(
    "div",
    { class: "figure" },
    h("h4", { text: title }),
    h("strong", { text: value }),
    ...lines.map((text) => h("p", { text })),
  );
}

/** One question: mean with confidence interval, and histogram of scores. */
function scores(question) {
  const title = question.prompt || question.id;
  if (!question.n) return figure(title, "–", "No ratings of this clip yet.");
  const digits = question.high - question.low > 20 ? 1 : 2;
  const element = figure(
    title,
    round(question.mean.mean, digits),
    `mean of ${counted(question.n, "rating")}, ${interval(question.mean, digits)}`,
  );
  element.append(histogram(question));
  return element;
}

/** One column per score, or per group of scores if there are many. */
function histogram({ low, high, counts, prompt, id }) {
  const span = high - low + 1;
  const wide = span >= WIDE ? Math.ceil(span / 20) : 1;
  const columns = Array.from({ length: Math.ceil(span / wide) }, (_, k) => ({
    from: low + k * wide,
    to: Math.min(high, low + (k + 1) * wide - 1),
    count: 0,
  }));
  for (const [value, count] of Object.entries(counts)) columns[Math.floor((Number(value) - low) / wide)].count += count;
  const most = Math.max(...columns.map((one) => one.count));
  const named = ({ from, to }) => (from === to ? `${from}` : `${from} to ${to}`);
  const summary = columns
    .filter((one) => one.count)
    .map((one) => `${named(one)}: ${one.count}`)
    .join(", ");
  const bars = columns.map((one, k) => {
    const bar = h("i", { title: `${named(one)}: ${one.count}` });
    bar.style.blockSize = `${(100 * one.count) / most}%`;
    const name =
      columns.length <= 10 || k === 0 || k === columns.length - 1
        ? `${k === columns.length - 1 ? one.to : one.from}`
        : "";
    return h(
      "div",
      {},
      h("b", { text: one.count ? `${one.count}` : "" }),
      h("span", {}, bar),
      h("small", { text: name }),
    );
  });
  return h(
    "div",
    { class: "histogram", role: "img", "aria-label": `Distribution of scores for “${prompt || id}”: ${summary}` },
    ...bars,
  );
}

function predictions(predicted) {
  if (!predicted.length)
    return [h("p", { class: "muted", text: "No predictions for this clip yet: run studio campaign predict." })];
  return [
    h(
      "div",
      { class: "figures" },
      ...predicted.map((one) =>
        figure(`${one.predictor} ${one.version}`, round(one.mos), `predicted MOS, weights ${one.weights.slice(0, 8)}`),
      ),
    ),
    h("p", {
      class: "muted",
      text: "Predictions are not part of any mean, ranking or significance test of the results.",
    }),
  ];
}
