// Tables of the timeline's data (accessible alternative to the canvas); seams can be sorted.

import { optionTexts } from "../options/option_controls.js";
import { counted } from "../page/plurals.js";
import { clock } from "../timeline/axis.js";
import { PAUSES, pauseColour } from "./lanes.js";

const LAGS = {
  known_to_heard_ms: "word complete to played",
  typed_to_heard_ms: "first key to played",
  known_to_made_ms: "word complete to computed",
  made_to_heard_ms: "computed to played",
};
const whole = (ms) => (ms === null || ms === undefined ? "–" : Math.round(ms).toLocaleString("en"));

const make = (tag, text = "", attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

/** Summary line: voice, options, seed, duration. */
export function about(view) {
  const { about: who, audio_s: audioS, forced, rtf } = view.facts;
  const { words, segments } = view.timeline;
  const heard = {
    player: "played as the player reported",
    listener: "as heard by a listener who never pauses",
    recording: "a recording: no key presses, no synthesis",
  };
  return [
    who.voice ? `${who.source === "forced" ? "a recording through " : ""}${who.voice}:${who.speaker}` : "",
    who.consent_given ? `speaker cloned with consent given on ${who.consent_given}` : "",
    who.placed_by ? `word times from ${who.placed_by}` : "",
    ...optionTexts(who.options ?? {}),
    who.seed === undefined ? "" : `seed ${who.seed}`,
    `${audioS.toFixed(2)} s of sound`,
    counted(words.length, "word"),
    segments.length
      ? `${counted(segments.length, "segment")}${forced.length ? `, ${forced.length} forced to end` : ""}`
      : "",
    rtf ? `rtf ${rtf.toFixed(2)}` : "",
    heard[view.timeline.heard_by],
  ]
    .filter(Boolean)
    .join(" · ");
}

export function fillLags(list, view) {
  const rows = Object.entries(LAGS).filter(([name]) => view.facts.lags[name]);
  const fact = (value, what) => {
    const row = make("div");
    row.append(make("dd", value), make("dt", what));
    return row;
  };
  const pauses = new Map();
  for (const pause of view.timeline.pauses) {
    const [count, ms] = pauses.get(pause.reason) ?? [0, 0];
    pauses.set(pause.reason, [count + 1, ms + pause.end_ms - pause.start_ms]);
  }
  list.replaceChildren(
    ...rows.map(([name, what]) =>
      fact(`${whole(view.facts.lags[name].p50)} ms`, `${what}, median; p95 ${whole(view.facts.lags[name].p95)}`),
    ),
    ...[...pauses].map(([reason, [count, ms]]) =>
      fact(`${whole(ms)} ms`, `${PAUSES[reason]}, ${counted(count, "time")}`),
    ),
  );
  if (!list.children.length) list.append(fact("–", "a recording has no timing data"));
}

export function fillLegend(list, view, colours) {
  const reasons = [...new Set(view.timeline.pauses.map((pause) => pause.reason))];
  const entries = reasons.map((reason) => [PAUSES[reason], pauseColour(reason, colours)]);
  if (view.facts.forced.length) entries.push(["forced to end", colours.stall]);
  list.replaceChildren(
    ...entries.map(([text, colour]) => {
      const entry = make("li", text);
      entry.style.setProperty("--mark", colour);
      return entry;
    }),
  );
}

/** Fill the table of seams, sortable by column; `go(seam)` is called for the selected row. */
export function fillSeams(details, view, go) {
  const { seams } = view.facts;
  details.hidden = !seams.length;
  details.querySelector("summary").textContent = `Seams (${seams.length})`;
  const columns = [
    ["sample", "at (s of sound)"],
    ["level_db", "level (dB)"],
    ["spectrum_db", "spectrum (dB)"],
    ["roughness", "roughness"],
  ];
  const table = details.querySelector("table");
  const fill = (by) => {
    const sorted = [...seams].sort((one, other) =>
      by === "sample" ? one.sample - other.sample : Math.abs(other[by]) - Math.abs(one[by]),
    );
    const head = make("tr");
    for (const [name, title] of columns) {
      const cell = make("th", "", { scope: "col", "aria-sort": name === by ? "descending" : "none" });
      const button = make("button", title, { type: "button" });
      button.addEventListener("click", () => fill(name));
      cell.append(button);
      head.append(cell);
    }
    head.append(make("th", "listen", { scope: "col" }));
    const rows = sorted.map((seam) => {
      const row = make("tr");
      row.append(make("td", (seam.sample / view.timeline.rate_hz).toFixed(3)));
      for (const [name] of columns.slice(1)) row.append(make("td", seam[name].toFixed(2)));
      const cell = make("td");
      const button = make("button", "200 ms", {
        type: "button",
        "aria-label": `Play 200 ms around the seam at ${(seam.sample / view.timeline.rate_hz).toFixed(3)} s`,
      });
      button.addEventListener("click", () => go(seam));
      cell.append(button);
      row.append(cell);
      return row;
    });
    table.replaceChildren(head, ...rows);
  };
  whenOpened(details, () => fill("level_db"));
}

/** Fill a table when it is first opened: thousands of rows would delay the first drawing. */
function whenOpened(details, fill) {
  details.querySelector("table").replaceChildren();
  details.ontoggle = () => {
    if (!details.open) return;
    details.ontoggle = null;
    fill();
  };
  if (details.open) details.ontoggle();
}

export function fillWords(details, view, go) {
  const { words } = view.timeline;
  details.hidden = !words.length;
  details.querySelector("summary").textContent = `Words (${words.length})`;
  const times = ["typed_ms", "known_ms", "made_ms", "heard_ms", "heard_whole_ms"];
  whenOpened(details, () => {
    const head = make("tr");
    for (const title of ["word", "first key", "known", "made", "heard", "heard until", "source"])
      head.append(make("th", title, { scope: "col" }));
    const rows = words.map((word) => {
      const row = make("tr");
      const cell = make("th", "", { scope: "row" });
      const button = make("button", word.text, { type: "button" });
      button.addEventListener("click", () => go(word));
      cell.append(button);
      row.append(
        cell,
        ...times.map((name) => make("td", word[name] === null ? "–" : clock(word[name]))),
        make("td", word.source),
      );
      return row;
    });
    details.querySelector("table").replaceChildren(head, ...rows);
  });
}
