// Lanes of the sound: waveform, pitch and level, spectrogram, p_eos, seams.

import { FONT } from "../timeline/ruler.js";
import { budget } from "../timeline/tiles.js";
import { pauseColour } from "./lanes.js";

/**
 * Visible part of each run: samples [start, end) and their x and width. Runs that share a pixel are merged, so there are
 * at most as many as pixels.
 */
export function* visibleRuns(scene) {
  const { axis, line, rateHz } = scene;
  const perMs = rateHz / 1000;
  let part = null;
  for (const run of line.runs) {
    const endMs = run.t_ms + (run.end - run.start) / perMs;
    if (endMs < axis.leftMs || run.t_ms > axis.rightMs) continue;
    const start = run.start + Math.max(0, axis.leftMs - run.t_ms) * perMs;
    const end = run.end - Math.max(0, endMs - axis.rightMs) * perMs;
    if (end <= start) continue;
    const x = axis.x(run.t_ms + (start - run.start) / perMs);
    const right = axis.x(run.t_ms + (end - run.start) / perMs);
    if (part && right - part.x <= 1) {
      part.end = end;
      part.width = right - part.x;
      continue;
    }
    if (part) yield part;
    part = { start, end, x, width: right - x };
  }
  if (part) yield part;
}

export function drawWave(scene, { y, height }) {
  const { paint, colours, peaks } = scene;
  const middle = y + height / 2;
  const scale = (height / 2 - 3) / scene.loudest;
  paint.fillStyle = colours.accent;
  for (const { start, end, x, width } of visibleRuns(scene)) {
    const perPx = (end - start) / width;
    for (let px = Math.floor(x); px < x + width; px++) {
      const from = start + (px - x) * perPx;
      const [low, high] = peaks.of(Math.max(start, from), Math.min(end, from + perPx));
      paint.fillRect(px, middle - high * scale, 1, Math.max(1, (high - low) * scale));
    }
  }
}

const LEVEL_DB = 50; // drawn range below the speech level
const TOPS = 16; // level steps per precomputed maximum
const MARGIN_ST = 2; // semitones above and below the speech

/** Level and pitch in steps of a few milliseconds. */
export class Prosody {
  constructor({ view, level, pitch }) {
    this.step = view.step_samples;
    this.topDb = (view.active_db ?? -20) + 6;
    this.level = level;
    this.pitch = pitch;
    const voiced = pitch.filter((hz) => hz > 0).sort();
    const at = (share) => voiced[Math.floor(share * (voiced.length - 1))];
    this.hasPitch = voiced.length > 0;
    this.lowHz = this.hasPitch ? at(0.02) * 2 ** (-MARGIN_ST / 12) : 0;
    this.highHz = this.hasPitch ? at(0.98) * 2 ** (MARGIN_ST / 12) : 0;
    // prefix sums over steps: voiced count and pitch, for constant-time means
    this.voiced = new Int32Array(pitch.length + 1);
    this.octaves = new Float64Array(pitch.length + 1);
    for (let k = 0; k < pitch.length; k++) {
      this.voiced[k + 1] = this.voiced[k] + Number(pitch[k] > 0);
      this.octaves[k + 1] = this.octaves[k] + (pitch[k] > 0 ? Math.log2(pitch[k]) : 0);
    }
    this.tops = Float32Array.from({ length: Math.ceil(level.length / TOPS) }, (_, k) =>
      Math.max(...level.subarray(k * TOPS, (k + 1) * TOPS)),
    );
  }

  /** Pitch at a sample in Hz; 0 where unvoiced. */
  hz(sample) {
    return this.pitch[Math.floor(sample / this.step)] ?? 0;
  }

  /** Highest level and mean pitch of samples [from, to). */
  among(from, to) {
    const first = Math.min(this.level.length, Math.floor(from / this.step));
    const last = Math.min(this.level.length, Math.max(first + 1, Math.ceil(to / this.step)));
    let db = -Infinity;
    for (let k = first; k < last; ) {
      const isWhole = k % TOPS === 0 && k + TOPS <= last;
      db = Math.max(db, isWhole ? this.tops[k / TOPS] : this.level[k]);
      k += isWhole ? TOPS : 1;
    }
    const count = this.voiced[last] - this.voiced[first];
    return { db, hz: count ? 2 ** ((this.octaves[last] - this.octaves[first]) / count) : 0 };
  }
}

/** Pitch as dots on a semitone scale, level as a grey line behind it. */
export function drawPitch(scene, { y, height }) {
  const { paint, axis, colours, prosody } = scene;
  const [top, tall] = [y + 6, height - 12];
  const atDb = (db) => top + tall * Math.min(1, Math.max(0, (prosody.topDb - db) / LEVEL_DB));
  const span = Math.log2(prosody.highHz / prosody.lowHz);
  const atHz = (hz) => top + tall * (1 - Math.min(1, Math.max(0, Math.log2(hz / prosody.lowHz) / span)));
  for (const { start, end, x, width } of visibleRuns(scene)) {
    const perPx = (end - start) / width;
    paint.strokeStyle = colours.muted;
    paint.globalAlpha = 0.5;
    paint.beginPath();
    const dots = [];
    for (let px = Math.floor(x); px < x + width; px++) {
      const from = Math.max(start, start + (px - x) * perPx);
      const { db, hz } = prosody.among(from, from + perPx);
      if (db > -Infinity) paint.lineTo(px, atDb(db));
      if (hz) dots.push([px, atHz(hz)]);
    }
    paint.stroke();
    paint.globalAlpha = 1;
    paint.fillStyle = colours.accent;
    for (const [px, at] of dots) paint.fillRect(px - 1, at - 1, 2, 2);
  }
  if (!prosody.hasPitch) return;
  paint.font = `11px ${FONT}`;
  paint.textAlign = "right";
  paint.textBaseline = "middle";
  for (const hz of [prosody.highHz, prosody.lowHz]) {
    const text = `${Math.round(hz)} Hz`;
    const at = atHz(hz) + (hz === prosody.lowHz ? -4 : 4);
    const width = paint.measureText(text).width;
    paint.fillStyle = colours.panel;
    paint.globalAlpha = 0.82;
    paint.fillRect(axis.width - width - 10, at - 8, width + 10, 16);
    paint.globalAlpha = 1;
    paint.fillStyle = colours.muted;
    paint.fillText(text, axis.width - 6, at);
  }
}

/** Draw the spectrogram or the frames; false while tiles are missing. */
export function drawPicture(scene, { y, height }) {
  const { paint, colours, picture } = scene;
  paint.fillStyle = colours.faint;
  paint.fillRect(0, y, scene.axis.width, height);
  const spend = budget();
  let isWhole = true;
  for (const { start, end, x, width } of visibleRuns(scene)) {
    isWhole = picture.draw(paint, start, end, x, width, y, height, spend) && isWhole;
  }
  return isWhole;
}

/** p_eos of each frame, and the threshold that ends a segment. */
export function drawEos(scene, { y, height }) {
  const { paint, axis, colours, pEos, frameSamples } = scene;
  const top = y + 6;
  const tall = height - 12;
  const at = (p) => top + tall * (1 - p);
  paint.strokeStyle = colours.stall;
  paint.setLineDash([4, 4]);
  paint.beginPath();
  paint.moveTo(0, at(scene.eosAt));
  paint.lineTo(axis.width, at(scene.eosAt));
  paint.stroke();
  paint.setLineDash([]);
  for (const { start, end, x, width } of visibleRuns(scene)) {
    const perSample = width / (end - start);
    const first = Math.floor(start / frameSamples);
    const last = Math.min(pEos.length, Math.ceil(end / frameSamples));
    const wide = frameSamples * perSample;
    const step = Math.max(1, Math.floor(0.7 / wide));
    for (let k = first; k < last; k += step) {
      let p = 0;
      for (let n = k; n < Math.min(last, k + step); n++) if (pEos[n] > p) p = pEos[n]; // false for NaN
      const left = Math.max(x, x + (k * frameSamples - start) * perSample);
      paint.fillStyle = p >= scene.eosAt ? colours.accent : colours.muted;
      paint.fillRect(left, at(p), Math.max(1, wide * step - (wide > 4 ? 1 : 0)), top + tall - at(p));
    }
  }
}

/** Seams and forced ends over waveform and spectrogram; coinciding ones are one line. */
export function drawSeams(scene, top, bottom) {
  const { paint, axis, colours, line } = scene;
  const dense = line.segments.length / Math.max(1, axis.width) > 0.25;
  for (const one of line.segments) {
    if (one.heard_ms === null || one.heard_ms < axis.leftMs || one.heard_ms > axis.rightMs) continue;
    const x = Math.round(axis.x(one.heard_ms)) + 0.5;
    const before = line.segments[scene.segmentNumber.get(one.index) - 1];
    if (dense && !before?.forced) continue;
    paint.strokeStyle = before?.forced ? colours.stall : colours.ink;
    paint.globalAlpha = before?.forced ? 1 : 0.35;
    paint.setLineDash(before?.forced ? [] : [3, 3]);
    paint.beginPath();
    paint.moveTo(x, top);
    paint.lineTo(x, bottom);
    paint.stroke();
  }
  paint.setLineDash([]);
  paint.globalAlpha = 1;
  let drawnTo = -Infinity;
  paint.globalAlpha = 0.14;
  for (const pause of line.pauses) {
    if (pause.end_ms < axis.leftMs || pause.start_ms > axis.rightMs) continue;
    const [x, right] = [axis.x(pause.start_ms), axis.x(pause.end_ms)];
    if (Math.max(x + 1, right) < drawnTo + 1) continue; // the pixel is shaded already
    drawnTo = Math.max(x + 1, right);
    paint.fillStyle = pauseColour(pause.reason, colours);
    paint.fillRect(x, top, drawnTo - x, bottom - top);
  }
  paint.globalAlpha = 1;
}
