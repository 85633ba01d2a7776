// Lanes of text, segments and speech, and the lines that join each word across them.

import { t } from "../page/translate.js";
import { lowerBound } from "../sound/marks.js";
import { FONT } from "../timeline/ruler.js";

const BOX = 22;
const LEAST_WORD_PX = 12; // least average width at which words are drawn
const MOST_ASIDE_PX = 40; // greatest shift of a word to the right of its position
const LEAST_TICK_PX = 1.5; // least distance between drawn key presses
const LEAST_BOX_PX = 0.5; // least width that a box adds to the boxes before it

export const PAUSES = {
  text: "waits for text",
  credit: "waits for the listener",
  compute: "stall: the computer",
  network: "stall: the network",
  unknown: "player paused, cause unknown",
};

/** What is written in a pause where it is drawn. */
const CAUSES = { text: t("text"), credit: t("credit"), compute: t("compute"), network: t("network") };

/** The colour of a pause. */
export const pauseColour = (reason, colours) =>
  ({ text: colours.warn, compute: colours.stall, network: colours.stall })[reason] ?? colours.muted;

export function drawTyped(scene, { y, height }) {
  const { paint, axis, colours, line } = scene;
  let drawnTo = -Infinity;
  const from = lowerBound(line.keys, (key) => key.t_ms, axis.leftMs);
  for (let k = from; k < line.keys.length && line.keys[k].t_ms <= axis.rightMs; k++) {
    const key = line.keys[k];
    const x = axis.x(key.t_ms);
    if (x - drawnTo < LEAST_TICK_PX) continue;
    drawnTo = x;
    paint.fillStyle = key.is_kept ? colours.ink : colours.stall;
    paint.fillRect(Math.round(x), y + height - 12, 1, 10);
  }
  paint.font = `600 12px ${FONT}`;
  paint.textBaseline = "middle";
  paint.textAlign = "left";
  const words = visibleEntries(line.words, axis, "typed_ms", "typed_ms", 4000);
  if (words.length * LEAST_WORD_PX > axis.width) return; // a partial set would look complete
  const rows = new Rows([y + 21, y + 8]);
  for (const { tMs, words: typed, isChosen } of typedTogether(words, scene)) {
    const x = axis.x(tMs);
    const text = fitted(paint, typed, axis.width - x);
    const position = text && x <= axis.width && rows.place(x, widthOf(paint, text));
    if (!position) continue;
    paint.fillStyle = isChosen ? colours.accent : colours.ink;
    paint.fillText(text, position.x, position.y);
  }
}

/** Group written words by the time they were typed; pasted words share one time. */
function typedTogether(words, scene) {
  const groups = [];
  let before = -1;
  for (const word of words) {
    if (word.written === before) continue;
    before = word.written;
    if (groups.at(-1)?.tMs !== word.typed_ms) groups.push({ tMs: word.typed_ms, words: [], isChosen: false });
    groups.at(-1).words.push(scene.line.text.slice(word.char_start, word.char_end));
    groups.at(-1).isChosen ||= scene.isChosen(word);
  }
  return groups;
}

/** As many words as fit, followed by an ellipsis if some are left out. */
function fitted(paint, words, room) {
  const ends = words.map((_, k) => words.slice(0, k + 1).join(" ") + (k < words.length - 1 ? " …" : ""));
  return words.length === 1 ? words[0] : ends.findLast((text) => widthOf(paint, text) <= room);
}

/** Rows of words: each word near its position, without overlap. */
class Rows {
  /** `ys`: centres of the rows, in order of preference. */
  constructor(ys) {
    this.rows = ys.map((y) => ({ y, free: -Infinity }));
  }

  /** Position for a word that starts at `x`; null if no row has room near it. */
  place(x, width) {
    const nearest = this.rows.reduce((best, row) => (Math.max(x, row.free) < Math.max(x, best.free) ? row : best));
    const at = Math.max(x, nearest.free);
    if (at - x > MOST_ASIDE_PX) return null;
    nearest.free = at + width + 5;
    return { x: at, y: nearest.y };
  }
}

export function drawSegments(scene, { y, height }) {
  const { paint, axis, colours, line } = scene;
  const top = y + (height - BOX) / 2;
  let drawnTo = -Infinity;
  for (const one of visibleEntries(line.segments, axis, "made_ms", "made_whole_ms", 10000)) {
    const x = axis.x(one.made_ms);
    const width = Math.max(2, axis.x(one.made_whole_ms) - x);
    if (!one.forced && x + width < drawnTo + LEAST_BOX_PX) continue;
    drawnTo = x + width;
    paint.fillStyle = colours["accent-soft"];
    paint.fillRect(x, top, width, BOX);
    if (width > 3) {
      paint.strokeStyle = one.forced ? colours.stall : colours.accent;
      paint.strokeRect(Math.round(x) + 0.5, top + 0.5, Math.max(1, Math.round(width) - 1), BOX - 1);
    }
    if (width < LEAST_WORD_PX) continue;
    const words = one.words.map((i) => scene.word(i)?.text).join(" ");
    const saw = one.seen.filter((i) => !one.words.includes(i)).map((i) => scene.word(i)?.text);
    inside(scene, saw.length ? `${words} | ${saw.join(" ")}` : words, x, width, top, colours.ink) ||
      inside(scene, words, x, width, top, colours.ink);
  }
}

export function drawSpeech(scene, { y, height }) {
  const { paint, axis, colours, line } = scene;
  const top = y + (height - BOX) / 2;
  const words = visibleEntries(line.words, axis, "heard_ms", "heard_whole_ms", 0);
  let drawnTo = -Infinity;
  for (const word of words) {
    const x = axis.x(word.heard_ms);
    const width = Math.max(1, axis.x(word.heard_whole_ms) - x);
    const isNow = word.heard_ms <= scene.atMs && scene.atMs < word.heard_whole_ms;
    if (!isNow && !scene.isChosen(word) && x + width < drawnTo + LEAST_BOX_PX) continue;
    drawnTo = x + width;
    paint.fillStyle = isNow ? colours.good : colours[word.i % 2 ? "good-odd" : "good-even"];
    paint.fillRect(x, top, Math.max(1, width - (width > 4 ? 1 : 0)), BOX);
    if (scene.isChosen(word)) {
      paint.strokeStyle = colours.accent;
      paint.lineWidth = 2;
      paint.strokeRect(x + 1, top + 1, width - 2, BOX - 2);
      paint.lineWidth = 1;
    }
  }
  if (!line.words.some((word) => word.heard_ms !== null)) {
    paint.fillStyle = colours["accent-soft"];
    for (const run of line.runs)
      paint.fillRect(axis.x(run.t_ms), top, ((run.end - run.start) / scene.rateHz) * 1000 * axis.pxPerMs, BOX);
  }
  drawnTo = -Infinity;
  for (const pause of visibleEntries(line.pauses, axis, "start_ms", "end_ms", 0)) {
    const x = axis.x(pause.start_ms);
    const width = Math.max(1, axis.x(pause.end_ms) - x);
    if (x + width < drawnTo + LEAST_BOX_PX) continue;
    drawnTo = x + width;
    paint.fillStyle = pauseColour(pause.reason, colours);
    paint.fillRect(x, top - 3, width, BOX + 6);
    inside(scene, CAUSES[pause.reason] ?? pause.reason, x, width, top, colours.panel);
  }
  if (words.length * LEAST_WORD_PX > axis.width) return;
  const rows = new Rows([top + BOX + 8, top - 8]); // below and above the boxes, for words wider than their box
  for (const word of words) {
    const isNow = word.heard_ms <= scene.atMs && scene.atMs < word.heard_whole_ms;
    const [left, right] = clear(word, line.pauses).map((ms) => axis.x(ms));
    if (inside(scene, word.text, left, right - left, top, isNow ? colours.panel : colours.ink)) continue;
    paint.font = `11px ${FONT}`;
    const width = widthOf(paint, word.text);
    const ideal = Math.min((axis.x(word.heard_ms) + axis.x(word.heard_whole_ms) - width) / 2, axis.width - width);
    const position = ideal >= 0 && rows.place(ideal, width);
    if (!position || position.x + width > axis.width) continue;
    paint.fillStyle = colours.ink;
    paint.textAlign = "left";
    paint.fillText(word.text, position.x, position.y);
  }
}

/** The longest part of a word without a pause. */
function clear(word, pauses) {
  let [best, at] = [[word.heard_ms, word.heard_ms], word.heard_ms];
  const within = pauses.filter((pause) => pause.start_ms < word.heard_whole_ms && pause.end_ms > word.heard_ms);
  for (const { start_ms: start, end_ms: end } of [...within, { start_ms: word.heard_whole_ms, end_ms: Infinity }]) {
    if (start - at > best[1] - best[0]) best = [at, start];
    at = Math.max(at, end);
  }
  return best;
}

/** One line per word: from known over generated to played. */
export function drawJoins(scene, typed, segments, speech) {
  const { paint, axis, colours, line } = scene;
  const visible = visibleEntries(line.words, axis, "known_ms", "heard_ms", 0);
  const isDense = visible.length * 3 > axis.width;
  for (const word of visible) {
    const isChosen = scene.isChosen(word);
    if (isDense && !isChosen && word.i % Math.ceil((visible.length * 3) / axis.width)) continue;
    paint.strokeStyle = isChosen ? colours.accent : colours.muted;
    paint.globalAlpha = isChosen ? 1 : 0.45;
    paint.lineWidth = isChosen ? 2 : 1;
    const box = (lane) => [lane.y + (lane.height - BOX) / 2, lane.y + (lane.height + BOX) / 2];
    paint.beginPath();
    paint.moveTo(axis.x(word.known_ms), typed.y + typed.height - 2);
    paint.lineTo(axis.x(word.made_ms), box(segments)[0]);
    paint.moveTo(axis.x(word.made_ms), box(segments)[1]);
    paint.lineTo(axis.x(word.heard_ms), box(speech)[0]);
    paint.stroke();
  }
  paint.globalAlpha = 1;
  paint.lineWidth = 1;
}

/** Entries that overlap the visible range, widened by `slackMs` on the left. */
function visibleEntries(list, axis, start, end, slackMs) {
  const [fromMs, toMs] = [axis.leftMs - slackMs, axis.rightMs];
  return list.filter((one) => one[start] !== null && one[end] !== null && one[end] >= fromMs && one[start] <= toMs);
}

const widths = new Map(); // cached text widths by font and text
const MOST_WIDTHS = 20_000;

function widthOf(paint, text) {
  const name = `${paint.font}/${text}`;
  if (!widths.has(name)) {
    if (widths.size >= MOST_WIDTHS) widths.clear();
    widths.set(name, paint.measureText(text).width);
  }
  return widths.get(name);
}

/** Draw a text if it fits whole; returns whether it did. */
function inside(scene, text, x, width, top, colour) {
  const { paint, axis } = scene;
  const left = Math.max(x, 0);
  const room = Math.min(x + width, axis.width) - left - 6;
  if (room < 8) return false;
  paint.font = `12px ${FONT}`;
  if (widthOf(paint, text) > room) return false;
  paint.fillStyle = colour;
  paint.textBaseline = "middle";
  paint.textAlign = "center";
  paint.fillText(text, left + 3 + room / 2, top + BOX / 2 + 0.5);
  return true;
}
