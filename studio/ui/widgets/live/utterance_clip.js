// A clip of the last utterance: keys, words lighting up and sound on one clock, with the sound as heard.

import { voiceName } from "../options/option_controls.js";
import { t } from "../page/translate.js";
import { drawBrand, shownAddress } from "../share/brand.js";
import { clipEnding, clipMime, recordClip } from "../share/clip.js";
import { save } from "../sound/recording.js";
import { parse } from "../timeline/bundle.js";
import { fileName } from "./history/entries.js";
import { BUCKET_MS, drawAxis, drawLane, write } from "./race/paint.js";
import { RaceRecord } from "./race/race_record.js";

const SIZE = { width: 1280, height: 720 };
const TAIL_MS = 800;
const MAX_S = 120; // recorded in real time
const CLAIM = t("Speech that starts before the typing ends");

/** The keys, words and levels of a trace's view as one lane of a race; times are milliseconds from its first key. */
export function laneOf({ timeline, pcm }, name) {
  const { rate_hz: rateHz, keys, words, runs, text } = timeline;
  const zeroMs = Math.min(keys[0]?.t_ms ?? Infinity, runs[0].t_ms);
  const record = new RaceRecord(text, 150, [name, ""], rateHz);
  const [lane] = record.lanes;
  record.begin(keys.filter((key) => key.is_kept).flatMap((key) => chars(key, zeroMs)));
  for (const word of words) {
    record.event(0, { ...word, type: "committed" });
    if (word.heard_ms === null) continue;
    const at = record.writtenAt(lane, word.i);
    lane.lit[at] ??= [word.heard_ms - zeroMs, Infinity];
    lane.lit[at][1] = (word.heard_whole_ms ?? word.heard_ms) - zeroMs;
  }
  for (const run of runs) addLevels(lane, run, pcm, rateHz, run.t_ms - zeroMs);
  const last = runs.at(-1);
  lane.firstMs = lane.lit.find(Boolean)?.[0] ?? runs[0].t_ms - zeroMs;
  record.endMs = record.spanMs = last.t_ms + (1000 * (last.end - last.start)) / rateHz - zeroMs;
  return { record, startMs: runs[0].t_ms - zeroMs };
}

const chars = ({ text, t_ms: tMs }, zeroMs) => Array.from(text, (char) => ({ text: char, tMs: tMs - zeroMs }));

function addLevels(lane, { start, end }, pcm, rateHz, fromMs) {
  const samples = Math.round((BUCKET_MS * rateHz) / 1000);
  for (let from = start; from < end; from += samples) {
    const peak = pcm.subarray(from, Math.min(end, from + samples)).reduce((most, v) => Math.max(most, Math.abs(v)), 0);
    lane.levels[Math.round((fromMs + ((from - start) * 1000) / rateHz) / BUCKET_MS)] = peak / 32768;
  }
}

function draw(canvas, record, tMs, colours) {
  const paint = canvas.getContext("2d", { alpha: false });
  const { width, height } = canvas;
  const [side, em] = [width * 0.05, height * 0.048];
  paint.fillStyle = colours.panel;
  paint.fillRect(0, 0, width, height);
  paint.textAlign = "left";
  write(paint, CLAIM, side, height * 0.1, 700, em * 1.4, colours.ink);
  const box = { x: side, y: height * 0.2, width: width - 2 * side, height: height * 0.6 };
  const scale = box.width / record.spanMs;
  const atMs = Math.min(tMs, record.endMs);
  drawLane(paint, record, 0, atMs, box, colours, em, (ms) => box.x + ms * scale);
  drawAxis(paint, { ...box, y: height * 0.82, scale }, colours, em);
  drawBrand(paint, { x: side, right: width - side, y: height * 0.945, em }, colours, shownAddress(location));
}

/** Record and download a clip of the trace at an address; `says(text)` reports progress and errors. */
export async function saveUtteranceClip(page, viewUrl, says) {
  const response = await fetch(viewUrl);
  if (!response.ok) return says(t("The server no longer has this recording."));
  /** @type {any} */
  const parts = parse(await response.arrayBuffer());
  const { timeline } = parts.view;
  const { record, startMs } = laneOf({ timeline, pcm: parts.pcm }, voiceName(page.settings.card));
  if (record.endMs > MAX_S * 1000) return says(t("A clip is at most {seconds} s long.", { seconds: MAX_S }));
  const end = timeline.runs.at(-1).end;
  const gaps = timeline.pauses.filter((pause) => pause.sample > 0 && pause.sample < end);
  const sound = {
    chunks: [{ first: 0, data: parts.pcm.subarray(0, end) }],
    gaps: gaps.map(({ sample, start_ms, end_ms }) => {
      return { sample, frames: Math.round(((end_ms - start_ms) * timeline.rate_hz) / 1000) };
    }),
    samples: end,
    rateHz: timeline.rate_hz,
  };
  const mime = clipMime();
  const colours = page.race.style();
  const clip = {
    size: SIZE,
    mime,
    lastMs: record.endMs + TAIL_MS,
    draw: (canvas, tMs) => draw(canvas, record, tMs, colours),
    sounds: [{ sound, startMs }],
  };
  const blob = await recordClip(page.player.context, clip, (seconds) => says(t("{seconds} s left", { seconds })));
  save(blob, fileName(timeline.text).replace(/wav$/, clipEnding(mime)));
  return says("");
}
