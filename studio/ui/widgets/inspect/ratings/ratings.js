// What raters said of a sound of a listening test, and apart from it what a predictor foresees: for the test's owner.

import { h } from "../../rate/dom.js";

const round = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−"));
const interval = ({ low, high }, digits, { times = 1, unit = "" } = {}) => (low === null || high === null ? "no interval: too few raters" : `95%: ${round(times * low, digits)} to ${round(times * high, digits)}${unit}`);
const PERCENT = { times: 100, unit: "%" };
const raters = (count) => `${count} ${count === 1 ? "rating" : "ratings"}`;
const WIDE = 21; // from so many scores on they are drawn in groups

/** Put what is known into `place`; `found` is the answer of the route. */
export function showRatings(place, found) {
  const { script, system, heard_at: level } = found;
  const role = script.role === "test" ? "" : ` · ${script.role}, which enters no mean`;
  const gain = `${level.gain_db < 0 ? "−" : "+"}${Math.abs(level.gain_db).toFixed(1)} dB`;
  const sound = found.has_trace ? "Shown and heard here is what the voice made" : "Shown and heard here is the clip that raters heard";
  const left = found.left_out ? ` ${found.left_out} ${found.left_out === 1 ? "rater is" : "raters are"} left out by the gates.` : "";
  const about = `${sound}; it was played at ${round(level.lufs, 1)} LUFS (${gain}).${left}`;
  place.replaceChildren(
    h("header", {}, h("h2", { text: found.title }), h("p", { class: "muted", text: `${found.kind} · ${script.name} by ${system.name}${system.role === "test" ? "" : ` (${system.role})`}${role}` })),
    h("section", { class: "people", "aria-label": "What raters said" }, h("h3", { text: "What raters said" }), h("div", { class: "asked" }, ...people(found)), h("p", { class: "muted", text: about })),
    h("section", { class: "foreseen", "aria-label": "Predicted, not by people" }, h("h3", { text: "Predicted, not by people" }), ...foreseen(found.predicted)),
  );
  place.hidden = false;
}

function people(found) {
  const said = [
    ...found.questions.map(scores),
    ...found.comparisons.map((one) => figure(`${one.id}, against ${one.against}`, round(one.mean), `CMOS of ${raters(one.n)}, ${interval(one)}`, `better ${one.better}, the same ${one.same}, worse ${one.worse}`)),
    ...found.preferences.map((one) => figure(`Against ${one.against}`, `${round(100 * one.share, 0)}%`, `preferred, of ${one.n} ${one.n === 1 ? "vote" : "votes"}, ${interval(one, 0, PERCENT)}`, `won ${one.won}, lost ${one.lost}, alike ${one.ties}, both bad ${one.both_bad}`)),
    ...found.found.map((one) => figure(`X found, ${one.a} and ${one.b}`, `${one.right} of ${one.n}`, "answers to screens with this sound")),
  ];
  return said.length ? said : [h("p", { class: "muted", text: "Nobody has rated this sound yet." })];
}

function figure(title, value, ...lines) {
  return h("div", { class: "figure" }, h("h4", { text: title }), h("strong", { text: value }), ...lines.map((text) => h("p", { text })));
}

/** One question: the mean with its interval, and how often each score was given. */
function scores(question) {
  const title = question.prompt || question.id;
  if (!question.n) return figure(title, "–", "Nobody has rated this sound yet.");
  const digits = question.high - question.low > 20 ? 1 : 2;
  const told = figure(title, round(question.mean.mean, digits), `mean of ${raters(question.n)}, ${interval(question.mean, digits)}`);
  told.append(histogram(question));
  return told;
}

/** A column for each score, or each group of scores where there are many. */
function histogram({ low, high, counts, prompt, id }) {
  const span = high - low + 1;
  const wide = span >= WIDE ? Math.ceil(span / 20) : 1;
  const columns = Array.from({ length: Math.ceil(span / wide) }, (_, k) => ({ from: low + k * wide, to: Math.min(high, low + (k + 1) * wide - 1), count: 0 }));
  for (const [value, count] of Object.entries(counts)) columns[Math.floor((Number(value) - low) / wide)].count += count;
  const most = Math.max(...columns.map((one) => one.count));
  const named = ({ from, to }) => (from === to ? `${from}` : `${from} to ${to}`);
  const told = columns.filter((one) => one.count).map((one) => `${named(one)}: ${one.count}`).join(", ");
  const bars = columns.map((one, k) => {
    const bar = h("i", { title: `${named(one)}: ${one.count}` });
    bar.style.blockSize = `${(100 * one.count) / most}%`;
    const name = columns.length <= 10 || k === 0 || k === columns.length - 1 ? `${k === columns.length - 1 ? one.to : one.from}` : "";
    return h("div", {}, h("b", { text: one.count ? `${one.count}` : "" }), h("span", {}, bar), h("small", { text: name }));
  });
  return h("div", { class: "histogram", role: "img", "aria-label": `How often each score was given to “${prompt || id}”: ${told}` }, ...bars);
}

function foreseen(predicted) {
  if (!predicted.length) return [h("p", { class: "muted", text: "Nothing was predicted of this sound: studio campaign predict does." })];
  return [
    h("div", { class: "asked" }, ...predicted.map((one) => figure(`${one.predictor} ${one.version}`, round(one.mos), `predicted MOS, weights ${one.weights.slice(0, 8)}`))),
    h("p", { class: "muted", text: "A prediction is no person's: it enters no mean, order or test of the results." }),
  ];
}
