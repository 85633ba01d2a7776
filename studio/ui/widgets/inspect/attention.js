// Attention of each frame over the words, and log-likelihood of each frame.

import { FONT } from "../timeline/ruler.js";
import { visibleRuns } from "./layers.js";

const NAMED_PX = 11; // least row height with a word label
const MOST_WORDS = 3; // listed for a frame

/** Attention shares and log-likelihood, one row per frame. */
export class Attention {
  constructor({ view, attention, word, likelihood }) {
    this.columns = view.columns;
    this.shares = attention; // in 1/255, for `word[frame]` and the words after it
    this.word = word;
    this.likelihood = likelihood;
    this.most = attention.reduce((most, share) => Math.max(most, share), 1);
    this.highest = new Int32Array(word.length).fill(-2); // last word attended to by each frame
    for (let at = 0; at < attention.length; at++) {
      const frame = Math.floor(at / this.columns);
      if (attention[at] && word[frame] >= 0) this.highest[frame] = word[frame] + (at % this.columns);
    }
    const known = likelihood.filter((value) => value > -Infinity).sort();
    const at = (share) => known[Math.floor(share * (known.length - 1))];
    this.hasLikelihood = known.length > 0;
    this.low = this.hasLikelihood ? at(0.02) : 0;
    this.high = this.hasLikelihood ? known.at(-1) : 0;
  }

  /** Words attended to by frames [first, last): [lowest, highest], or null. */
  words(first, last) {
    let [low, high] = [Infinity, -Infinity];
    for (let k = first; k < last; k++) {
      if (this.highest[k] < this.word[k]) continue;
      low = Math.min(low, this.word[k]);
      high = Math.max(high, this.highest[k]);
    }
    return low <= high ? [low, high] : null;
  }

  /** Descriptions of a frame: its most attended words and its log-likelihood. */
  describe(frame, text) {
    if (!(this.word[frame] >= 0)) return [];
    const shares = [...this.shares.subarray(frame * this.columns, (frame + 1) * this.columns)].map((share, c) => [
      share / 255,
      c,
    ]);
    const most = shares
      .filter(([share]) => share > 0)
      .sort((one, other) => other[0] - one[0])
      .slice(0, MOST_WORDS);
    const named = most.map(([share, c]) => `${text(this.word[frame] + c) ?? "?"} ${share.toFixed(2)}`);
    const likely = this.likelihood[frame];
    return [
      named.length ? `attends to ${named.join(", ")}` : "",
      likely > -Infinity ? `log-likelihood ${likely.toFixed(1)}` : "",
    ].filter(Boolean);
  }
}

/** Visible frames of a run of sound: range [first, last), x of the first, width of each in px. */
function seen(scene, { start, end, x, width }, count) {
  const perSample = width / (end - start);
  const first = Math.floor(start / scene.frameSamples);
  const last = Math.min(count, Math.ceil(end / scene.frameSamples));
  return {
    first,
    last,
    left: x + (first * scene.frameSamples - start) * perSample,
    wide: scene.frameSamples * perSample,
  };
}

/** One row per visible word, the first at the top; darker means more attention. */
export function drawAttention(scene, { y, height }) {
  const { paint, axis, colours, attention } = scene;
  const parts = [...visibleRuns(scene)].map((part) => seen(scene, part, attention.word.length));
  const ranges = parts.map(({ first, last }) => attention.words(first, last)).filter(Boolean);
  paint.fillStyle = colours.faint;
  paint.fillRect(0, y, axis.width, height);
  if (!ranges.length) return;
  const low = Math.min(...ranges.map(([least]) => least));
  const rows = Math.max(...ranges.map(([, most]) => most)) - low + 1;
  const tall = Math.min(height / rows, 2 * NAMED_PX);
  const began = new Map(); // first frame that attends to each word
  paint.save();
  paint.beginPath();
  paint.rect(0, y, axis.width, height);
  paint.clip();
  paint.fillStyle = colours.accent;
  for (const { first, last, left, wide } of parts) {
    const step = Math.max(1, Math.floor(0.7 / wide));
    for (let k = first; k < last; k += step) {
      if (attention.word[k] < 0) continue;
      for (let c = 0; c < attention.columns; c++) {
        let share = 0;
        for (let n = k; n < Math.min(last, k + step); n++) {
          const column = c + attention.word[k] - attention.word[n];
          if (column >= 0 && column < attention.columns)
            share = Math.max(share, attention.shares[n * attention.columns + column]);
        }
        if (!share) continue;
        const row = attention.word[k] + c - low;
        const x = left + (k - first) * wide;
        if (!began.has(row)) began.set(row, x);
        paint.globalAlpha = Math.sqrt(share / attention.most);
        paint.fillRect(x, y + row * tall, Math.max(1, wide * step), Math.max(1, tall));
      }
    }
  }
  paint.globalAlpha = 1;
  if (tall >= NAMED_PX) {
    paint.font = `11px ${FONT}`;
    paint.textBaseline = "middle";
    paint.textAlign = "right";
    paint.fillStyle = colours.ink;
    for (const [row, x] of began) {
      const text = scene.word(low + row)?.text ?? "";
      if (x - 5 > paint.measureText(text).width) paint.fillText(text, x - 5, y + (row + 0.5) * tall);
    }
  }
  paint.restore();
}

/** Log-likelihood of each frame, scaled to this utterance's range. */
export function drawLikelihood(scene, { y, height }) {
  const { paint, colours, attention } = scene;
  const [top, tall] = [y + 4, height - 8];
  const at = (value) =>
    top + tall * (1 - Math.min(1, Math.max(0, (value - attention.low) / (attention.high - attention.low || 1))));
  paint.strokeStyle = colours.accent;
  for (const part of visibleRuns(scene)) {
    const { first, last, left, wide } = seen(scene, part, attention.likelihood.length);
    const step = Math.max(1, Math.floor(0.7 / wide));
    paint.beginPath();
    for (let k = first; k < last; k += step) {
      let least = Infinity;
      for (let n = k; n < Math.min(last, k + step); n++)
        if (attention.likelihood[n] < least) least = attention.likelihood[n];
      if (!(least < Infinity)) continue;
      const from = left + (k - first) * wide;
      paint.lineTo(Math.max(part.x, from), at(least));
      paint.lineTo(Math.min(part.x + part.width, from + step * wide), at(least));
    }
    paint.stroke();
  }
}
