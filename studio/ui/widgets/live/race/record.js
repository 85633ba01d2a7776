// What is known of a race: its keys, and of each lane when its words and its sound were heard, on the race's clock.

import { BUCKET_MS } from "./paint.js";

const WORD_MS = 400; // for the picture's first guess at how long it will take

export class Record {
  /** `names` are those of the two lanes. */
  constructor(text, wpm, names) {
    this.names = names;
    this.keys = [];
    this.words = [];
    let from = 0;
    for (const word of text.trim().split(/\s+/)) {
      this.words.push({ text: word, from });
      from += Array.from(word).length + 1;
    }
    this.spanMs = (this.words.length * 60000) / wpm + this.words.length * WORD_MS + 800;
    this.firstWordMs = 0;
    this.secondMs = this.endMs = null; // when the second lane's sound began, and when it was over
    this.lanes = [0, 1].map(() => ({ firstMs: null, starts: [], ends: [], spelt: [], lit: [], levels: [], until: 0 }));
  }

  /** The clock has begun, with the first key at `tMs` of it. */
  begin(keys) {
    this.keys = keys;
    this.firstWordMs = (keys.find((key) => !key.text.trim()) ?? keys.at(-1)).tMs;
  }

  event(k, e) {
    const lane = this.lanes[k];
    if (e.type === "committed") lane.spelt[e.i] = { from: e.char_start, to: e.char_end };
    else if (e.type === "word_start") lane.starts[e.i] = e.sample;
    else if (e.type === "word_end") lane.ends[e.i] = e.sample;
  }

  /** Which written word a spoken one belongs to; a sentence's own spaces may differ, so words are found by their order. */
  writtenAt(lane, i) {
    const from = lane.spelt[i]?.from ?? 0;
    return this.words.findLastIndex((word) => word.from <= from);
  }

  /** The ear is at `sample` of a lane at `tMs`: light its words. */
  light(k, sample, tMs) {
    const lane = this.lanes[k];
    for (const [i, start] of lane.starts.entries()) {
      if (start === undefined || start >= sample) continue;
      const word = this.writtenAt(lane, i);
      lane.lit[word] ??= [tMs, Infinity];
      if (lane.ends[i] <= sample) lane.lit[word][1] = Math.min(lane.lit[word][1], tMs);
      else lane.lit[word][1] = Infinity;
    }
  }

  /** The second lane's sound is heard, so all of the first was: also what no picture was drawn for meanwhile. */
  second(tMs) {
    if (this.secondMs !== null) return;
    this.secondMs = tMs;
    this.light(0, Infinity, tMs);
  }

  /** All was heard. */
  end(tMs) {
    this.endMs = tMs;
    for (const k of this.lanes.keys()) this.light(k, Infinity, tMs);
    for (const lane of this.lanes) for (const times of lane.lit) if (times) times[1] = Math.min(times[1], tMs);
  }

  /** The ear has moved to `sample` of a lane at `tMs`; `peak(from, to)` is how loud that was. */
  hear(k, sample, tMs, peak) {
    const lane = this.lanes[k];
    const moved = sample - lane.until;
    if (moved <= 0) return void (lane.at = tMs);
    const first = Math.floor(Math.max(lane.firstMs ?? 0, lane.at ?? lane.firstMs ?? tMs) / BUCKET_MS);
    const last = Math.floor(tMs / BUCKET_MS);
    const count = Math.max(1, last - first);
    for (let b = 0; b < count; b++) {
      const level = peak(lane.until + (moved * b) / count, lane.until + (moved * (b + 1)) / count);
      const bucket = last - count + 1 + b;
      lane.levels[bucket] = Math.max(lane.levels[bucket] ?? 0, level);
    }
    lane.until = sample;
    lane.at = tMs;
  }
}
