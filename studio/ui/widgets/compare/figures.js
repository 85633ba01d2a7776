// Tables of the comparison: utterances, words, and the figures of a pair.

import { optionTexts } from "../options/option_controls.js";
import { counted } from "../page/plurals.js";
import { h } from "../rate/dom.js";

const ms = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));
const signed = (value, digits) =>
  value === null || value === undefined
    ? null
    : `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(digits)}`;
const cells = (kind, values) => values.map((text) => h(kind, { text, ...(kind === "th" ? { scope: "col" } : {}) }));

/** Settings that all utterances share. */
export function common(takes) {
  const about = takes.map((take) => ({ ...take.about, ...take.about.options }));
  const same = (name) =>
    about.every((one) => one[name] !== undefined && one[name] === about[0][name]) ? about[0][name] : null;
  const who = [same("voice"), same("speaker")].filter(Boolean).join(":");
  const shared = Object.entries(about[0].options ?? {}).filter(([name]) => same(name) !== null);
  const seed = same("seed") === null ? [] : [`seed ${same("seed")}`];
  return [who, ...optionTexts(Object.fromEntries(shared)), ...seed].filter(Boolean).join(" · ");
}

export function fillUtterances(details, { takes }) {
  const rows = takes.map((take, k) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", text: `${k + 1} ${take.name}` }),
      ...cells("td", [
        take.audio_s.toFixed(2),
        String(take.words),
        take.segments ? `${take.segments}${take.forced ? ` (${take.forced} forced)` : ""}` : "–",
        ms(take.first_audio_ms),
        ms(take.known_to_heard_p50_ms),
        ms(take.known_to_heard_p95_ms),
        take.stalls === null ? "–" : `${take.stalls} (${ms(take.stalled_ms)} ms)`,
        take.rtf === null ? "–" : take.rtf.toFixed(2),
      ]),
    ),
  );
  const head = h(
    "tr",
    {},
    ...cells("th", [
      "utterance",
      "sound (s)",
      "words",
      "segments",
      "first audio (ms)",
      "word complete to played (ms)",
      "p95 (ms)",
      "stalls",
      "rtf",
    ]),
  );
  details.querySelector("table").replaceChildren(head, ...rows);
}

/** `measured`: pitch and level of each word in each utterance, or null while loading. */
export function fillWords(details, { takes, rows, reference }, measured, choose) {
  details.querySelector("summary").textContent =
    `Words (${rows.length}): start and length in ms${measured ? "; pitch in Hz, level in dB" : ""}`;
  const cell = (row, i, k) => {
    if (row[k] === null) return "–";
    const [, start, end] = takes[k].said[row[k]];
    const [hz, db] = measured?.[i][k] ?? [null, null];
    const sound = [hz === null ? "" : `${Math.round(hz)} Hz`, db === null ? "" : `${Math.round(db)} dB`]
      .filter(Boolean)
      .join(", ");
    return `${ms(1000 * start)} + ${ms(1000 * (end - start))}${sound ? `; ${sound}` : ""}`;
  };
  const body = rows.map((row, i) => {
    const word = h("button", {
      type: "button",
      text: takes[reference].said[row[reference]][0],
      on: { click: () => choose(i) },
    });
    return h("tr", {}, h("th", { scope: "row" }, word), ...takes.map((_, k) => h("td", { text: cell(row, i, k) })));
  });
  const head = h("tr", {}, ...cells("th", ["word", ...takes.map(({ name }, k) => `${k + 1} ${name}`)]));
  details.querySelector("table").replaceChildren(head, ...body);
}

/** Differences of the second of a pair from the first; signs are inverted for a stored pair in reverse order. */
export function fillPair(list, pairs, [one, other], meanDb) {
  const entry = pairs.find((pair) => pair.one === Math.min(one, other) && pair.other === Math.max(one, other));
  const fact = (value, what) =>
    value === null ? [] : [h("div", {}, h("dd", { text: value }), h("dt", { text: what }))];
  if (!entry) return list.replaceChildren(...fact("–", "select two different utterances"));
  const sign = entry.one === one ? 1 : -1;
  const turned = (value) => (value === null ? null : sign * value);
  const ratio = entry.duration_ratio === null ? null : entry.duration_ratio ** sign;
  const from = `${other + 1} against ${one + 1}`;
  return list.replaceChildren(
    ...fact(
      entry.duration_r === null ? null : entry.duration_r.toFixed(2),
      `correlation of word durations (${counted(entry.words, "word")})`,
    ),
    ...fact(ratio === null ? null : `${Math.round(100 * ratio)}%`, `word duration, ${from}`),
    ...fact(signed(turned(entry.pitch_st), 1), `semitones of pitch, ${from} (median)`),
    ...fact(signed(turned(entry.level_db), 1), `dB of level, ${from} (median)`),
    ...fact(signed(turned(entry.known_to_heard_ms), 0), `ms from word complete to played, ${from} (median)`),
    ...fact(meanDb === null || meanDb === undefined ? null : meanDb.toFixed(1), "dB spectral difference (mean)"),
  );
}
