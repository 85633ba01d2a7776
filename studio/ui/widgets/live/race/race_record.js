// The data of a race on its clock: keys, and per lane the playback times of words and the sound level.

import { BUCKET_MS } from "./paint.js";

const WORD_MS = 400; // for an initial estimate of the duration

export class RaceRecord {
  /** `names` of the two lanes; `rateHz` of their sound. */
  constructor(text, wpm, names, rateHz = 24_000) {
    this.names = names;
    this.rateHz = rateHz;
    this.keys = [];
    this.words = [];
    let from = 0;
    for (const word of text.trim().split(/\s+/)) {
      this.words.push({ text: word, from });
      from += Array.from(word).length + 1;
    }
    this.spanMs = (this.words.length * 60000) / wpm + this.words.length * WORD_MS + 800;
    this.firstWordMs = 0;
    this.secondMs = this.endMs = null; // start and end of the second lane's playback
    this.lanes = [0, 1].map(() => ({
      firstMs: null,
      starts: [],
      ends: [],
      spans: [],
      lit: [],
      levels: [],
      marks: [], // {tMs, sample}: playback positions, in order
      until: 0,
      at: undefined,
    }));
  }

  /** Set the keys when the clock starts. */
  begin(keys) {
    this.keys = keys;
    this.firstWordMs = (keys.find((key) => !key.text.trim()) ?? keys.at(-1)).tMs;
  }

  event(k, e) {
    const lane = this.lanes[k];
    if (e.type === "committed") lane.spans[e.i] = { from: e.char_start, to: e.char_end };
    else if (e.type === "word_start") lane.starts[e.i] = e.sample;
    else if (e.type === "word_end") lane.ends[e.i] = e.sample;
  }

  /** The index of the written word of a spoken word; by order, because spaces between sentences may differ. */
  writtenAt(lane, i) {
    const from = lane.spans[i]?.from ?? 0;
    return this.words.findLastIndex((word) => word.from <= from);
  }

  /** Light a lane's words up to `sample`, the playback position at `tMs`. */
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

  /** The second lane's playback starts: light all words of the first, also those of frames that were not drawn. */
  startSecond(tMs) {
    if (this.secondMs !== null) return;
    this.secondMs = tMs;
    this.light(0, Infinity, tMs);
  }

  /** Playback has ended. */
  end(tMs) {
    this.endMs = tMs;
    for (const k of this.lanes.keys()) this.light(k, Infinity, tMs);
    for (const lane of this.lanes) for (const times of lane.lit) if (times) times[1] = Math.min(times[1], tMs);
  }

  /** Add sound levels up to `sample`, the playback position of a lane at `tMs`; `peak(from, to)` is the level of a range. */
  addLevels(k, sample, tMs, peak) {
    const lane = this.lanes[k];
    const moved = sample - lane.until;
    if (moved <= 0) {
      lane.at = tMs;
      lane.marks.push({ tMs, sample: lane.until }); // of a wait, the last one counts
      return;
    }
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
    lane.marks.push({ tMs, sample });
  }

  /** When the sound of a lane was over, while both lanes were measured. */
  soundEndMs(k) {
    return this.lanes[k].levels.length * BUCKET_MS;
  }

  /**
   * Where the playhead of a lane stands on the axis at `tMs`: at the clock while both lanes are measured. Then the second
   * sound plays, and its playhead passes the levels that were drawn for it; null for the first lane, which is silent.
   */
  headMs(k, tMs) {
    if (this.secondMs === null || tMs < this.secondMs) return tMs;
    if (k === 0) return null;
    const sample = ((tMs - this.secondMs) * this.rateHz) / 1000;
    const { marks } = this.lanes[1];
    const next = marks.findIndex((mark) => mark.sample > sample);
    if (next <= 0) return marks.at(next)?.tMs ?? null;
    const [from, to] = [marks[next - 1], marks[next]];
    return from.tMs + ((to.tMs - from.tMs) * (sample - from.sample)) / (to.sample - from.sample);
  }
}
