// The timeline canvas: lanes on one time axis, redrawn on every change.

import { t } from "../page/translate.js";
import { isDark } from "../sound/colours.js";
import { Axis } from "../timeline/axis.js";
import { TimelineCanvas } from "../timeline/canvas.js";
import { drawRuler, FONT } from "../timeline/ruler.js";
import { framesPicture, heardPicture, Peaks } from "../timeline/tiles.js";
import { Attention, drawAttention, drawLikelihood } from "./attention.js";
import { drawJoins, drawSegments, drawSpeech, drawTyped } from "./lanes.js";
import { drawEos, drawPicture, drawPitch, drawSeams, drawWave, Prosody } from "./layers.js";

const HEIGHTS = {
  ruler: 24,
  typed: 46,
  made: 62,
  heard: 52,
  wave: 84,
  pitch: 76,
  picture: 150,
  eos: 56,
  attention: 110,
  likelihood: 44,
};
const NAMES = {
  typed: t("text"),
  made: t("segments"),
  heard: t("speech"),
  wave: t("sound"),
  pitch: "",
  picture: "",
  eos: "end probability",
  attention: "attention to words",
  likelihood: "log-likelihood",
};
const NARROW_PX = 560; // below this width, names stand above their lanes
const NAME_PX = 18;
const NAME_FONT = `600 11px ${FONT}`;
const NAME_MARGIN_PX = 6;
const MOST_NAME_PX = 120; // of the width that is left free for names; longer ones cover the lane's start

export class Scene extends TimelineCanvas {
  /** `lanes`: names of the lanes to draw, where they exist. */
  constructor(canvas, { view, pcm, frames, p_eos: pEos }, lanes = Object.keys(HEIGHTS)) {
    super(canvas);
    this.lanes = lanes;
    this.line = view.timeline;
    this.rateHz = view.timeline.rate_hz;
    this.frameSamples = view.frame_samples;
    this.eosAt = view.eos_at;
    this.pcm = pcm;
    this.pEos = pEos;
    // families with an action stream report word starts here instead of ends
    this.pName = this.line.words.some(({ source }) => source === "action") ? "action stream" : "end probability";
    this.peaks = new Peaks(pcm);
    this.loudest = Math.max(
      1,
      ...this.peaks.levels.at(-1).high,
      ...[...this.peaks.levels.at(-1).low].map((low) => -low),
    );
    this.pictures = { heard: heardPicture(pcm, this.rateHz) };
    if (frames.length) this.pictures.frames = framesPicture(frames, view.channels, view.levels, this.frameSamples);
    this.pictureName = frames.length ? "frames" : "heard";
    this.byIndex = new Map(this.line.words.map((word) => [word.i, word]));
    this.segmentNumber = new Map(this.line.segments.map((one, k) => [one.index, k]));
    this.axis = new Axis(this.line.start_ms, this.line.end_ms, 1);
    this.prosody = this.attention = null; // loaded later
    this.isNarrow = false;
    this.marked = []; // annotation lanes, under the sound
    this.chosen = null; // index of the selected word
    this.atMs = -Infinity;
    this.isWhole = false; // whether all tiles were drawn
    this.boxes = this.layout();
    this.recolour();
  }

  get picture() {
    return this.pictures[this.pictureName];
  }

  /** Positions of the visible lanes, from top to bottom. */
  layout() {
    const isClocked = this.line.heard_by !== "recording";
    const isThere = {
      typed: isClocked,
      made: isClocked,
      heard: this.line.words.some((word) => word.heard_ms !== null), // a blind annotator gets no times
      eos: this.pEos.some((p) => p > 0),
      pitch: Boolean(this.prosody),
      attention: Boolean(this.attention),
      likelihood: Boolean(this.attention?.hasLikelihood),
    };
    const boxes = {};
    let y = 0;
    for (const [name, height] of Object.entries(HEIGHTS)) {
      if (isThere[name] === false || !this.lanes.includes(name)) continue;
      if (this.isNarrow && name in NAMES) y += NAME_PX;
      boxes[name] = { y, height };
      y += height;
      for (const lane of name === "wave" ? this.marked : []) {
        if (this.isNarrow) y += NAME_PX;
        boxes[lane.id] = { y, height: lane.height, lane };
        y += lane.height;
      }
    }
    this.height = y;
    return boxes;
  }

  /** Add the lane of level and pitch. */
  take(parts) {
    this.prosody = new Prosody(parts);
    this.boxes = this.layout();
    this.resize();
  }

  /** Set the annotation lanes, top to bottom; each has `id`, `title`, `height` and `draw()`. */
  laneMarks(lanes) {
    const before = this.height;
    this.marked = lanes;
    this.boxes = this.layout();
    if (this.height === before) this.ask();
    else this.resize();
  }

  takeAttention(parts) {
    this.attention = new Attention(parts);
    this.boxes = this.layout();
    this.resize();
  }

  word(i) {
    return this.byIndex.get(i);
  }

  isChosen(word) {
    return word.i === this.chosen;
  }

  recolour() {
    this.readColours();
    for (const [name, share] of [
      ["good-even", 16],
      ["good-odd", 26],
    ]) {
      // stored as rgb(): color-mix() would be parsed for every word
      this.paint.fillStyle = `color-mix(in srgb, ${this.colours.good} ${share}%, ${this.colours.panel})`;
      this.colours[name] = this.paint.fillStyle;
    }
    for (const picture of Object.values(this.pictures)) picture.recolour(isDark());
    this.ask();
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    if (this.isNarrow !== width < NARROW_PX) {
      this.isNarrow = width < NARROW_PX;
      this.boxes = this.layout();
    }
    this.axis.beforePx = this.isNarrow ? 2 * NAME_MARGIN_PX : this.nameWidth();
    this.fitTo(width, this.height);
  }

  drawAll() {
    const { boxes } = this;
    this.clear(this.height);
    drawRuler(this, boxes.ruler);
    this.shade(boxes.ruler.height, this.height);
    if (boxes.typed) {
      if (boxes.heard) drawJoins(this, boxes.typed, boxes.made, boxes.heard);
      drawTyped(this, boxes.typed);
      drawSegments(this, boxes.made);
    }
    if (boxes.heard) drawSpeech(this, boxes.heard);
    drawWave(this, boxes.wave);
    if (boxes.pitch) drawPitch(this, boxes.pitch);
    this.isWhole = !boxes.picture || drawPicture(this, boxes.picture);
    if (boxes.eos) drawEos(this, boxes.eos);
    if (boxes.attention) drawAttention(this, boxes.attention);
    if (boxes.likelihood) drawLikelihood(this, boxes.likelihood);
    for (const box of Object.values(boxes)) box.lane?.draw(this, box);
    drawSeams(this, boxes.wave.y, this.height);
    this.names();
    this.drawn++;
    if (!this.isWhole) this.ask();
    this.onDrawn?.();
  }

  /** The visible lanes with a name: [lane, name]. */
  named() {
    const picture = this.pictureName === "frames" ? "acoustic frames" : "spectrogram";
    const names = { ...NAMES, picture, eos: this.pName, pitch: this.prosody?.hasPitch ? "pitch, level" : "level" };
    return Object.entries(this.boxes)
      .map(([name, { lane }]) => [name, lane?.title ?? names[name]])
      .filter(([, text]) => text);
  }

  /** Width of the names at the left edge, with their margins. */
  nameWidth() {
    this.paint.font = NAME_FONT;
    const widths = this.named().map(([, text]) => this.paint.measureText(text).width);
    return 2 * NAME_MARGIN_PX + Math.ceil(Math.min(MOST_NAME_PX, Math.max(...widths)));
  }

  /** Draw lane names at the left edge. */
  names() {
    const { paint, colours } = this;
    paint.font = NAME_FONT;
    paint.textAlign = "left";
    paint.textBaseline = "middle";
    for (const [name, text] of this.named()) {
      const { y, height } = this.boxes[name];
      const inside =
        { picture: y + 10, wave: y + 10, pitch: y + 10, typed: y + height - 8, attention: y + height - 10 }[name] ??
        y + height / 2;
      const top = this.isNarrow ? y - NAME_PX / 2 : inside;
      const { width } = paint.measureText(text);
      paint.fillStyle = colours.panel;
      paint.globalAlpha = 0.82;
      paint.fillRect(0, top - 9, width + 2 * NAME_MARGIN_PX, 18);
      paint.globalAlpha = 1;
      paint.fillStyle = colours.muted;
      paint.fillText(text, NAME_MARGIN_PX, top);
    }
  }

  /** The sample played at a time; null in a pause. */
  sampleAt(ms) {
    const run = this.line.runs.findLast((one) => one.t_ms <= ms);
    if (!run) return null;
    const sample = run.start + Math.floor(((ms - run.t_ms) * this.rateHz) / 1000);
    return sample < run.end ? sample : null;
  }

  /** The word at a point of the canvas, by lane. */
  wordAt(ms, y) {
    const of = (first, last) =>
      this.line.words.findLast((word) => word[first] !== null && word[first] <= ms && ms < word[last]);
    const within = (box) => box && y >= box.y && y < box.y + box.height;
    if (within(this.boxes.typed)) {
      return this.line.words.find((word) => word.typed_ms !== null && word.typed_ms <= ms && ms <= word.known_ms);
    }
    if (within(this.boxes.made)) return of("made_ms", "made_whole_ms");
    return of("heard_ms", "heard_whole_ms");
  }
}
