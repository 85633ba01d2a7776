// Spectrograms in lazily rendered tiles: STFT of the sound, or the voice's acoustic frames. Peaks of the waveform.

import { diverging, palette } from "../sound/colours.js";
import { ROWS, Spectrum } from "../sound/spectrum.js";

const COLUMNS = 256;
const MOST_TILES = 160;
const BUDGET_MS = 7; // rendering time of tiles per frame; missing tiles follow in later frames

/** A tiled image: `columnSamples` per column, `rows` high; `fill(column, bytes)` writes low rows first; `map` is the palette. */
class Tiled {
  constructor({ columnSamples, offset, columns, rows, fill, map = palette }) {
    this.columnSamples = columnSamples;
    this.offset = offset;
    this.columns = columns;
    this.rows = rows;
    this.fill = fill;
    this.map = map;
    this.tiles = new Map(); // LRU by "level/number"
    this.colours = null;
  }

  recolour(isDark) {
    this.colours = this.map(isDark);
    this.tiles.clear();
  }

  /** Draw samples [start, end) into x..x+width; false if a tile is missing. */
  draw(paint, start, end, x, width, y, height, budget) {
    const perSample = width / (end - start);
    let level = 1; // column stride
    while (level * this.columnSamples * perSample < 0.75) level *= 2;
    const step = level * this.columnSamples;
    const first = Math.max(0, Math.floor((start - this.offset) / step));
    const last = Math.min(Math.ceil(this.columns / level), Math.ceil((end - this.offset) / step));
    let isWhole = true;
    paint.save();
    paint.beginPath();
    paint.rect(x, y, width, height);
    paint.clip();
    paint.imageSmoothingEnabled = perSample * step < 4;
    for (let number = Math.floor(first / COLUMNS); number * COLUMNS < last; number++) {
      const left = x + (number * COLUMNS * step + this.offset - start) * perSample;
      const tile = this.tile(level, number, budget);
      if (tile) {
        paint.drawImage(tile, left, y, COLUMNS * step * perSample, height);
        continue;
      }
      isWhole = false;
      const { coarse, from, count } = this.coarser(level, number) ?? {};
      if (coarse) paint.drawImage(coarse, from, 0, count, this.rows, left, y, COLUMNS * step * perSample, height);
    }
    paint.restore();
    return isWhole;
  }

  tile(level, number, budget) {
    const name = `${level}/${number}`;
    const cached = this.tiles.get(name);
    if (cached) {
      this.tiles.delete(name);
      this.tiles.set(name, cached);
      return cached;
    }
    if (budget.leftMs <= 0) return null;
    const began = performance.now();
    const tile = this.make(level, number);
    budget.leftMs -= performance.now() - began;
    this.tiles.set(name, tile);
    if (this.tiles.size > MOST_TILES) this.tiles.delete(this.tiles.keys().next().value);
    return tile;
  }

  /** The finest cached tile that covers a missing one, by its columns [from, from + count). */
  coarser(level, number) {
    for (let times = 2; times <= COLUMNS; times *= 2) {
      const coarse = this.tiles.get(`${level * times}/${Math.floor(number / times)}`);
      if (coarse) return { coarse, from: ((number % times) * COLUMNS) / times, count: COLUMNS / times };
    }
    return null;
  }

  make(level, number) {
    const canvas = document.createElement("canvas");
    canvas.width = COLUMNS;
    canvas.height = this.rows;
    const paint = canvas.getContext("2d");
    const image = paint.createImageData(COLUMNS, this.rows);
    const pixels = new Uint32Array(image.data.buffer);
    const colours = new Uint32Array(this.colours.buffer);
    const bytes = new Uint8Array(this.rows);
    for (let k = 0; k < COLUMNS; k++) {
      const column = (number * COLUMNS + k) * level;
      if (column >= this.columns) break;
      this.fill(column, bytes);
      for (let row = 0; row < this.rows; row++) pixels[(this.rows - 1 - row) * COLUMNS + k] = colours[bytes[row]];
    }
    paint.putImageData(image, 0, 0);
    return canvas;
  }
}

/** Spectrogram (STFT) of the sound. */
export function heardPicture(pcm, rateHz) {
  const spectrum = new Spectrum(rateHz);
  const { hop, window } = spectrum;
  const fill = (column, bytes) => {
    const end = (column + 1) * hop;
    spectrum.past.fill(0);
    const from = Math.max(0, end - window);
    const part = pcm.subarray(from, Math.min(end, pcm.length));
    for (let k = 0; k < part.length; k++) spectrum.past[window - (end - from) + k] = part[k] / 32768;
    spectrum.column(bytes);
  };
  const columns = Math.ceil(pcm.length / hop);
  return new Tiled({ columnSamples: hop, offset: (hop - window) / 2, columns, rows: ROWS, fill });
}

/** Acoustic frames: `channels` per frame, lowest first, with `levels` levels. */
export function framesPicture(frames, channels, levels, frameSamples) {
  const scale = 255 / Math.max(1, levels - 1);
  const fill = (column, bytes) => {
    for (let c = 0; c < channels; c++) bytes[c] = frames[column * channels + c] * scale;
  };
  const columns = Math.floor(frames.length / channels);
  return new Tiled({ columnSamples: frameSamples, offset: 0, columns, rows: channels, fill });
}

/** Difference of two spectrograms, bytes [columns, rows]: 128 is no difference, 0 is no data. */
export function differencePicture(bytes, rows, columnMs) {
  const fill = (column, out) => out.set(bytes.subarray(column * rows, (column + 1) * rows));
  return new Tiled({
    columnSamples: columnMs,
    offset: 0,
    columns: Math.floor(bytes.length / rows),
    rows,
    fill,
    map: diverging,
  });
}

/**
 * Time budget for new tiles in one frame. Painting is not counted, so that even on a slow machine each frame renders at
 * least one further tile.
 */
export const budget = () => ({ leftMs: BUDGET_MS });

/** Minimum and maximum of sample blocks in a pyramid of factor 4, for fast drawing of any range. */
export class Peaks {
  constructor(pcm) {
    this.pcm = pcm;
    this.levels = [];
    const block = 64;
    let low = new Int16Array(Math.ceil(pcm.length / block));
    let high = new Int16Array(low.length);
    for (let k = 0; k < low.length; k++) {
      let [least, most] = [32767, -32768];
      for (let at = k * block, end = Math.min(pcm.length, at + block); at < end; at++) {
        if (pcm[at] < least) least = pcm[at];
        if (pcm[at] > most) most = pcm[at];
      }
      low[k] = least;
      high[k] = most;
    }
    for (let size = block; ; size *= 4) {
      this.levels.push({ size, low, high });
      if (low.length <= 1024) break;
      const [lowBefore, highBefore] = [low, high];
      low = new Int16Array(Math.ceil(low.length / 4));
      high = new Int16Array(low.length);
      for (let k = 0; k < low.length; k++) {
        low[k] = lowBefore.subarray(4 * k, 4 * k + 4).reduce((a, b) => Math.min(a, b));
        high[k] = highBefore.subarray(4 * k, 4 * k + 4).reduce((a, b) => Math.max(a, b));
      }
    }
  }

  /** Minimum and maximum of samples [start, end). */
  of(start, end) {
    const level = this.levels.findLast(({ size }) => size <= end - start);
    let [least, most] = [32767, -32768];
    if (!level) {
      for (let at = Math.max(0, Math.floor(start)); at < Math.min(this.pcm.length, Math.ceil(end)); at++) {
        if (this.pcm[at] < least) least = this.pcm[at];
        if (this.pcm[at] > most) most = this.pcm[at];
      }
    } else {
      const last = Math.min(level.low.length, Math.ceil(end / level.size));
      for (let k = Math.max(0, Math.floor(start / level.size)); k < last; k++) {
        if (level.low[k] < least) least = level.low[k];
        if (level.high[k] > most) most = level.high[k];
      }
    }
    return least > most ? [0, 0] : [least, most];
  }
}
