// The live spectrogram: columns from the Worker, word spans, seams, EOS marks, gaps and the playhead.
// The x axis is voice time, which stops during waits.

import { isDark, palette } from "./colours.js";
import { drawMarks, drawWords, WORDS_PX } from "./marks.js";
import { HOP_S, heightOf, ROWS } from "./spectrum.js";

const TILE_COLUMNS = 512;
const MAX_TILES = 40;
const FRAME_MS = 30;
const TOP_PX = WORDS_PX;
const BOTTOM_PX = 28; // height of the band of time and marks

export class Scope {
  constructor(canvas) {
    this.canvas = canvas;
    this.paint = canvas.getContext("2d", { alpha: false });
    this.stillness = matchMedia("(prefers-reduced-motion: reduce)");
    this.rateHz = 24000;
    this.size = new ResizeObserver(() => this.resize());
    this.size.observe(canvas);
    this.theme = new MutationObserver(() => this.recolour());
    this.theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.recolour();
    this.clear();
    this.listen();
  }

  clear() {
    this.tiles = [];
    this.columns = 0;
    this.words = []; // {start, end, text, isEstimate} by word, samples
    this.canvas.classList.remove("estimates");
    this.seams = []; // samples
    this.eos = []; // {sample, forced, p}
    this.gaps = []; // {sample, frames, reason}
    this.labels = []; // positions, by word
    this.spellings = [];
    this.browseS = null;
    this.playedS = 0;
    this.dirty = true;
    this.drawnAt = 0;
  }

  event(e) {
    this.dirty = true;
    if (e.type === "committed") this.spellings[e.i] = e.word;
    else if (e.type === "word_start") this.startWord(e);
    else if (e.type === "word_end" && this.words[e.i]) this.words[e.i].end = e.sample;
    else if (e.type === "segment") this.seams.push(e.sample);
    else if (e.type === "eos")
      this.eos.push({ sample: e.sample ?? e.frame * this.frameSamples, forced: e.forced, p: e.p });
    else if (e.type === "gap") this.gaps.push(e);
    else if (e.type === "ready") this.frameSamples = e.frame_samples;
    else if (e.type === "revised") this.cut(e);
  }

  startWord({ i, sample, source }) {
    const isEstimate = source === "estimate";
    this.words[i] = { start: sample, end: 0, text: this.spellings[i] ?? "", isEstimate };
    if (isEstimate) this.canvas.classList.add("estimates"); // shows its key in the legend
  }

  /** Drop sound from `sample` on, and words from index `words` on. */
  cut({ from_sample: sample, words }) {
    this.columns = Math.min(this.columns, Math.floor(sample / Math.round(HOP_S * this.rateHz)));
    this.tiles.length = Math.ceil(this.columns / TILE_COLUMNS);
    const tile = this.tiles.at(-1);
    if (tile) {
      tile.filled = this.columns - (this.tiles.length - 1) * TILE_COLUMNS;
      tile.drawn = Math.min(tile.drawn, tile.filled);
    }
    this.spellings.length = Math.min(this.spellings.length, words);
    this.words = this.words.filter((word) => word.start < sample);
    for (const word of this.words) if (word.end > sample) word.end = 0;
    this.labels.length = Math.min(this.labels.length, this.words.filter((word) => word?.end).length);
    for (const marks of ["eos", "gaps"]) this[marks] = this[marks].filter((mark) => mark.sample <= sample);
    this.seams = this.seams.filter((seam) => seam < sample);
  }

  push(data) {
    for (let k = 0; k < data.length; k += ROWS) {
      const column = this.columns++ % TILE_COLUMNS;
      if (column === 0)
        this.tiles.push({ data: new Uint8Array(TILE_COLUMNS * ROWS), canvas: null, drawn: 0, filled: 0 });
      if (this.tiles.length > MAX_TILES) this.tiles[this.tiles.length - MAX_TILES - 1] = null;
      const tile = this.tiles.at(-1);
      tile.data.set(data.subarray(k, k + ROWS), column * ROWS);
      tile.filled = column + 1;
    }
    this.dirty = true;
  }

  recolour() {
    const style = getComputedStyle(this.canvas);
    const names = ["paper", "ink", "muted", "line", "accent", "accent-soft", "accent-ink", "stall", "panel"];
    this.colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.colours.played = style.getPropertyValue("--lit").trim();
    this.palette = palette(isDark());
    this.ground = `rgb(${this.palette.slice(0, 3).join(",")})`;
    for (const tile of this.tiles ?? []) if (tile) tile.drawn = 0;
    this.dirty = true;
  }

  resize() {
    const scale = devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.canvas;
    this.canvas.width = Math.round(clientWidth * scale);
    this.canvas.height = Math.round(clientHeight * scale);
    this.scale = scale;
    this.width = clientWidth;
    this.height = clientHeight;
    this.perSecond = clientWidth < 600 ? 110 : 130; // CSS pixels
    this.labels = [];
    this.dirty = true;
    this.drawnAt = 0; // a resized canvas is empty: draw before the browser shows it
    this.draw(this.playedS * this.rateHz, this.isMoving, performance.now());
  }

  /** While nothing plays, drag, wheel and arrow keys scroll the picture. */
  listen() {
    const move = (seconds) => {
      const last = Math.max(0, this.columns * HOP_S - 0.5 * (this.width / this.perSecond));
      this.browseS = Math.max(0, Math.min(last, (this.browseS ?? this.startS()) + seconds));
      this.dirty = true;
    };
    this.canvas.addEventListener(
      "wheel",
      (e) => {
        const by = Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : e.shiftKey ? e.deltaY : 0;
        if (!by || this.isMoving) return;
        e.preventDefault();
        move(by / this.perSecond);
      },
      { passive: false },
    );
    this.canvas.addEventListener("pointermove", (e) => {
      if (e.buttons === 1 && !this.isMoving) move(-e.movementX / this.perSecond);
    });
    this.canvas.addEventListener("keydown", (e) => {
      const step = { ArrowLeft: -0.5, ArrowRight: 0.5, Home: -1e6, End: 1e6 }[e.key];
      if (!step || this.isMoving) return;
      e.preventDefault();
      move(step);
    });
  }

  startS() {
    if (this.browseS !== null) return this.browseS;
    const viewS = this.width / this.perSecond;
    const headS = viewS * 0.66;
    if (this.stillness.matches) return Math.floor(this.playedS / (viewS * 0.75)) * viewS * 0.75;
    return Math.max(0, this.playedS - headS);
  }

  /** Draw if something changed, at most about thirty times a second. */
  draw(sample, isMoving, nowMs) {
    const playedS = sample / this.rateHz;
    if (isMoving) this.browseS = null;
    this.isMoving = isMoving;
    if (playedS !== this.playedS) this.dirty = true;
    this.playedS = playedS;
    if (!this.dirty || !this.width || nowMs - this.drawnAt < FRAME_MS) return;
    this.dirty = false;
    this.drawnAt = nowMs;
    const view = {
      startS: this.startS(),
      top: TOP_PX,
      bottom: this.height - BOTTOM_PX,
      x: (s) => (s / this.rateHz - this.startS()) * this.perSecond,
      sample,
    };
    const { paint } = this;
    paint.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    paint.fillStyle = this.colours.panel;
    paint.fillRect(0, 0, this.width, this.height);
    paint.fillStyle = this.ground;
    paint.fillRect(0, view.top, this.width, view.bottom - view.top);
    this.drawTiles(view);
    drawMarks(this, view);
    drawWords(this, view);
    this.drawHead(view);
  }

  drawTiles(view) {
    const columnPx = HOP_S * this.perSecond;
    const first = Math.max(0, Math.floor(view.startS / HOP_S / TILE_COLUMNS));
    this.paint.imageSmoothingEnabled = true;
    this.paint.imageSmoothingQuality = "high";
    for (let k = first; k < this.tiles.length; k++) {
      const x = (k * TILE_COLUMNS * HOP_S - view.startS) * this.perSecond;
      if (x > this.width) break;
      const tile = this.tiles[k];
      if (!tile) continue;
      this.renderTile(tile);
      const { filled } = tile;
      this.paint.drawImage(tile.canvas, 0, 0, filled, ROWS, x, view.top, filled * columnPx, view.bottom - view.top);
    }
    this.drawScale(view);
  }

  /** Render a tile's new columns to its canvas. */
  renderTile(tile) {
    if (tile.drawn === tile.filled) return;
    tile.canvas ??= new OffscreenCanvas(TILE_COLUMNS, ROWS);
    const context = tile.canvas.getContext("2d");
    const count = tile.filled - tile.drawn;
    const image = context.createImageData(count, ROWS);
    for (let c = 0; c < count; c++) {
      for (let r = 0; r < ROWS; r++) {
        const colour = 4 * tile.data[(tile.drawn + c) * ROWS + r];
        const at = 4 * ((ROWS - 1 - r) * count + c);
        image.data.set(this.palette.subarray(colour, colour + 4), at);
      }
    }
    context.putImageData(image, tile.drawn, 0);
    tile.drawn = tile.filled;
  }

  drawScale(view) {
    const { paint } = this;
    paint.font = "11px Arial, sans-serif";
    paint.textBaseline = "middle";
    paint.fillStyle = this.colours.muted;
    const viewS = this.width / this.perSecond;
    for (let s = Math.ceil(view.startS); s < view.startS + viewS; s++) {
      const x = (s - view.startS) * this.perSecond;
      paint.fillRect(Math.round(x), view.bottom + 15, 1, 11);
      if (x + 4 + paint.measureText(`${s} s`).width <= this.width) paint.fillText(`${s} s`, x + 4, view.bottom + 21);
    }
    if (this.columns === 0) return;
    paint.strokeStyle = this.ground; // outline, readable over any sound
    paint.lineWidth = 3;
    paint.lineJoin = "round";
    for (const kilo of [1, 2, 4, 8]) {
      const y = view.top + heightOf(kilo * 1000, this.rateHz) * (view.bottom - view.top);
      paint.strokeText(`${kilo}k`, 4, y);
      paint.fillText(`${kilo}k`, 4, y);
    }
  }

  drawHead(view) {
    const x = view.x(view.sample);
    if (this.columns === 0 || x < 0 || x > this.width) return;
    const { paint } = this;
    paint.fillStyle = this.colours.accent;
    paint.fillRect(x - 1, view.top - 4, 2, view.bottom - view.top + 4);
    paint.beginPath();
    paint.arc(x, view.top - 4, 4, 0, 2 * Math.PI);
    paint.fill();
  }

  dispose() {
    this.size.disconnect();
    this.theme.disconnect();
  }
}
