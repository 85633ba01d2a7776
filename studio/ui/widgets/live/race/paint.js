// Draws the race at one moment of its clock: on the page, in the saved clip and in the saved picture.

import { decimal, t } from "../../page/translate.js";

export const BUCKET_MS = 20; // of sound in one bar
const FACE = '"Segoe UI", Inter, Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif';
const GAP = 2.6; // between the lanes; this and the following lengths are in em
const AXIS = 1.6;
const [ABOVE, BELOW] = [1.7, 0.5]; // space around a lane's text; the lane's name is above it
const TEXT = 1.15;
const LEADING = 1.5; // line height, in em of the text
const SMALLEST = 0.72; // least font size relative to the largest, to fit more lines
const LAYOUTS = new WeakMap(); // cached lines by words, width and font size
// Rounded as shown, so that the outcome equals the difference of the two shown values.
const waitedMs = (race, lane) => 100 * Math.round((race.lanes[lane].firstMs - race.firstWordMs) / 100);
const earlierMs = (race) => waitedMs(race, 1) - waitedMs(race, 0);
const LONGEST_LOOK_AHEAD = 6; // words
const TIE_MS = 50; // less than one digit of the figures
const seconds = (ms) => decimal(ms / 1000, 1);

/** The outcome as text; "" before the end. */
export function outcome(race) {
  if (!race.lanes.every((lane) => lane.firstMs)) return "";
  const earlier = earlierMs(race);
  if (Math.abs(earlier) < TIE_MS) return t("heard at the same time");
  if (earlier > 0) return t("heard {seconds} s earlier", { seconds: seconds(earlier) });
  const finished = race.endMs === null ? 0 : race.soundEndMs(1) - race.soundEndMs(0);
  return finished > TIE_MS
    ? t("heard {later} s later, but done {earlier} s earlier", {
        later: seconds(-earlier),
        earlier: seconds(finished),
      })
    : t("heard {seconds} s later", { seconds: seconds(-earlier) });
}

/** Why speech by sentences was heard first, as text; "" where it was not, or the first sentence is not the reason. */
export function shortSentence(race) {
  const last = race.words.findIndex(({ text }) => /[.!?]/.test(text));
  if (earlierMs(race) > -TIE_MS || last < 0 || last >= LONGEST_LOOK_AHEAD) return "";
  return t("The first sentence is so short that it was complete before the voice had the words that it reads ahead.");
}

/** A lane's time from the first finished word to the first sound, as text. */
export function latencyText(race, lane) {
  const { firstMs } = race.lanes[lane];
  if (!firstMs) return "";
  const ms = firstMs - race.firstWordMs;
  if (ms < 0) return t("before the first word was complete");
  if (ms < TIE_MS) return t("{ms} ms after the first word", { ms: Math.round(ms) });
  return t("{seconds} s after the first word", { seconds: seconds(waitedMs(race, lane)) });
}

/** The same time without its beginning, `1.2 s`; a dash before the first sound. */
export function latency(race, lane) {
  const { firstMs } = race.lanes[lane];
  if (!firstMs) return "–";
  const ms = firstMs - race.firstWordMs;
  return ms < TIE_MS ? `${Math.round(ms)} ms` : `${seconds(waitedMs(race, lane))} s`;
}

/** The least height at which all of the text is visible in both lanes. */
export function heightFor(paint, race, width, em) {
  const letters = SMALLEST * TEXT * em;
  const rows = flow(paint, race.words, width, letters).at(-1).row + 1;
  const lane = ABOVE * em + LEADING * letters * rows + BELOW * em;
  const track = Math.max(1.7 * em, Math.min(3 * em, (0.28 * lane) / (1 - 0.28)));
  return Math.ceil(2 * (lane + track) + (GAP + AXIS) * em);
}

const isOn = (race, tMs) => tMs > 0 && tMs < (race.endMs ?? Infinity);

/** Draw the race at `tMs` into a box {x, y, width, height}; `em` is the font size in pixels. */
export function drawRace(paint, race, tMs, box, colours, em) {
  const lane = (box.height - GAP * em - AXIS * em) / 2;
  const scale = box.width / Math.max(race.spanMs, tMs + 500);
  const x = (ms) => box.x + ms * scale;
  const tops = [box.y, box.y + lane + GAP * em];
  for (const [k, y] of tops.entries()) drawLane(paint, race, k, tMs, { ...box, y, height: lane }, colours, em, x);
  drawAxis(paint, { ...box, y: box.y + box.height - 1.4 * em, scale }, colours, em);
  drawOutcome(paint, race, tMs, x, tops[0] + lane, em, colours, box);
}

export function drawLane(paint, race, k, tMs, box, colours, em, x) {
  const lane = race.lanes[k];
  const isPlaying = race.secondMs !== null && tMs >= race.secondMs ? k === 1 : k === 0;
  const latency = lane.firstMs && tMs >= lane.firstMs ? latencyText(race, k) : "";
  paint.font = `500 ${0.87 * em}px ${FACE}`;
  const left = box.width - paint.measureText(latency).width - 2.6 * em; // with room for the loudspeaker
  paint.font = `650 ${0.87 * em}px ${FACE}`;
  const name = fitted(paint, race.names[k], left);
  const width = paint.measureText(name).width;
  write(paint, name, box.x, box.y + 0.8 * em, 650, 0.87 * em, colours.ink);
  if (isPlaying && isOn(race, tMs))
    speaker(paint, box.x + width + 0.7 * em, box.y + 0.75 * em, 0.8 * em, colours.accent);
  paint.textAlign = "right";
  write(paint, latency, box.x + box.width, box.y + 0.8 * em, 500, 0.87 * em, k ? colours.muted : colours.accent);
  paint.textAlign = "left";
  const track = Math.max(1.7 * em, Math.min(3 * em, box.height * 0.28));
  drawText(
    paint,
    race,
    k,
    tMs,
    { ...box, y: box.y + ABOVE * em, height: box.height - track - (ABOVE + BELOW) * em },
    colours,
    TEXT * em,
  );
  drawTrack(paint, race, lane, tMs, { ...box, y: box.y + box.height - track, height: track }, colours, x, k);
}

/** The text, shortened to a width in the current font. */
function fitted(paint, text, width) {
  if (paint.measureText(text).width <= width) return text;
  let count = text.length;
  while (count > 1 && paint.measureText(`${text.slice(0, count)}…`).width > width) count--;
  return `${text.slice(0, count).trimEnd()}…`;
}

/** The typed text with the played words: all lines if they fit, else those at the last key or the playback position. */
function drawText(paint, race, k, tMs, box, colours, largest) {
  const typed = race.keys.filter((key) => key.tMs <= tMs).length;
  const { em, placed, rows } = fittedLines(paint, race.words, box, largest);
  paint.font = `450 ${em}px ${FACE}`;
  paint.textBaseline = "middle";
  const line = LEADING * em;
  const isTyping = typed < race.keys.length;
  const current = race.lanes[k].lit.findLastIndex((times) => times && times[0] <= tMs);
  const focus = isTyping || current < 0 ? placed.findLastIndex((word) => word.from < typed) : current;
  const skip = Math.max(0, (placed[focus]?.row ?? 0) - rows + 1);
  for (const [i, word] of placed.entries()) {
    const row = word.row - skip;
    if (row < 0 || row >= rows) continue;
    const [litMs, offMs] = race.lanes[k].lit[i] ?? [];
    const isNow = litMs <= tMs && !(offMs <= tMs);
    const [left, middle] = [box.x + word.x, box.y + (row + 0.5) * line];
    if (litMs <= tMs) {
      paint.fillStyle = isNow ? colours.accent : colours["accent-soft"];
      paint.beginPath();
      paint.roundRect(left - 3, middle - 0.66 * em, word.width + 6, 1.32 * em, 5);
      paint.fill();
    }
    const letters = Array.from(word.text);
    const written = letters.slice(0, Math.max(0, typed - word.from)).join("");
    paint.fillStyle = isNow ? colours["accent-ink"] : colours.ink;
    paint.fillText(written, left, middle);
    paint.fillStyle = colours.faintest;
    paint.globalAlpha = 0.28;
    paint.fillText(letters.slice(Array.from(written).length).join(""), left + paint.measureText(written).width, middle);
    paint.globalAlpha = 1;
  }
}

/** Words as lines, in the largest font size that fits, down to SMALLEST. */
function fittedLines(paint, words, box, largest) {
  for (let em = largest; ; em = Math.max(0.93 * em, SMALLEST * largest)) {
    const placed = flow(paint, words, box.width, em);
    const rows = Math.max(1, Math.floor(box.height / (LEADING * em)));
    if (placed.at(-1).row < rows || em <= SMALLEST * largest) return { em, placed, rows };
  }
}

/** Words as lines of at most `width`, cached. */
function flow(paint, words, width, em) {
  const key = `${width} ${em}`;
  if (!LAYOUTS.has(words)) LAYOUTS.set(words, new Map());
  const layouts = LAYOUTS.get(words);
  if (!layouts.has(key)) layouts.set(key, lines(paint, words, width, em));
  return layouts.get(key);
}

function lines(paint, words, width, em) {
  paint.font = `450 ${em}px ${FACE}`;
  const space = 0.32 * em;
  let [x, row] = [0, 0];
  return words.map((word) => {
    const { width: own } = paint.measureText(word.text);
    if (x > 0 && x + own > width) [x, row] = [0, row + 1];
    const placed = { ...word, x, row, width: own };
    x += own + space;
    return placed;
  });
}

/** The sound at its playback time, above the keys. */
function drawTrack(paint, race, lane, tMs, box, colours, x, k) {
  paint.fillStyle = colours.faint;
  paint.beginPath();
  paint.roundRect(box.x, box.y, box.width, box.height, 6);
  paint.fill();
  paint.fillStyle = colours.muted;
  for (const key of race.keys) {
    if (key.tMs <= tMs && key.text.trim()) paint.fillRect(x(key.tMs), box.y + box.height - 4, 1, 3);
  }
  const middle = box.y + box.height / 2;
  const bar = Math.max(1, x(BUCKET_MS) - x(0) - 1);
  for (const [bucket, level] of lane.levels.entries()) {
    const ms = bucket * BUCKET_MS;
    if (level === undefined || ms > tMs) continue;
    const half = Math.max(1, (box.height / 2 - 4) * Math.min(1, Math.sqrt(level) * 1.25));
    paint.fillStyle = k ? colours.second : colours.accent;
    paint.fillRect(x(ms), middle - half, bar, 2 * half);
  }
  const head = race.headMs(k, tMs);
  if (isOn(race, tMs) && head !== null && head < race.spanMs) {
    paint.fillStyle = colours.accent;
    paint.fillRect(x(head) - 1, box.y - 3, 2, box.height + 6);
  }
}

export function drawAxis(paint, box, colours, em) {
  const step = [1, 2, 5, 10, 20].find((s) => s * 1000 * box.scale > 3 * em) ?? 60;
  for (let s = 0; s * 1000 * box.scale < box.width - 2 * em; s += step) {
    const x = box.x + s * 1000 * box.scale;
    paint.fillStyle = colours.line;
    paint.fillRect(Math.round(x), box.y, 1, 0.5 * em);
    write(paint, `${s} s`, x + 4, box.y + 0.7 * em, 400, 0.75 * em, colours.muted);
  }
}

/** A line from the first sound of one lane to that of the other. */
function drawOutcome(paint, race, tMs, x, y, em, colours, box) {
  const [first, second] = race.lanes.map((lane) => lane.firstMs);
  if (!first || tMs < first) return;
  const to = second ? Math.min(tMs, second) : tMs;
  const middle = y + (GAP / 2) * em;
  paint.strokeStyle = colours.accent;
  paint.lineWidth = 2;
  paint.beginPath();
  paint.moveTo(x(first), y + 2);
  paint.lineTo(x(first), middle + 0.5 * em);
  paint.moveTo(x(first), middle);
  paint.lineTo(x(to), middle);
  if (second && tMs >= second) {
    paint.moveTo(x(second), middle - 0.5 * em);
    paint.lineTo(x(second), y + GAP * em - 2);
  }
  paint.stroke();
  if (!second || tMs < second) return;
  const text = outcome(race);
  paint.font = `680 ${1.05 * em}px ${FACE}`;
  const width = paint.measureText(text).width + 1.6 * em;
  const left = Math.max(box.x, Math.min(box.x + box.width - width, (x(first) + x(second)) / 2 - width / 2));
  paint.fillStyle = colours.accent;
  paint.beginPath();
  paint.roundRect(left, middle - 0.95 * em, width, 1.9 * em, 0.95 * em);
  paint.fill();
  write(paint, text, left + 0.8 * em, middle + 0.05 * em, 680, 1.05 * em, colours["accent-ink"]);
}

export function write(paint, text, x, y, weight, size, colour) {
  paint.font = `${weight} ${size}px ${FACE}`;
  paint.textBaseline = "middle";
  paint.fillStyle = colour;
  paint.fillText(text, x, y);
}

function speaker(paint, x, y, size, colour) {
  paint.fillStyle = paint.strokeStyle = colour;
  paint.beginPath();
  paint.moveTo(x, y - 0.18 * size);
  paint.lineTo(x + 0.22 * size, y - 0.18 * size);
  paint.lineTo(x + 0.5 * size, y - 0.45 * size);
  paint.lineTo(x + 0.5 * size, y + 0.45 * size);
  paint.lineTo(x + 0.22 * size, y + 0.18 * size);
  paint.lineTo(x, y + 0.18 * size);
  paint.fill();
  paint.lineWidth = 0.11 * size;
  for (const radius of [0.25, 0.45]) {
    paint.beginPath();
    paint.arc(x + 0.55 * size, y, radius * size, -0.8, 0.8);
    paint.stroke();
  }
}
