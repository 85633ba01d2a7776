// The comparison canvas: one lane per utterance (words and sound) on one axis, and the spectral difference of a pair.

import { isDark } from "../sound/colours.js";
import { Axis } from "../timeline/axis.js";
import { TimelineCanvas } from "../timeline/canvas.js";
import { drawRuler, FONT } from "../timeline/ruler.js";
import { budget, differencePicture, heardPicture, Peaks } from "../timeline/tiles.js";
import { TimeMap } from "./timemap.js";

const RULER = 24;
const NAME = 20;
const BOX = 22;
const SOUND = 58;
const LANE = NAME + BOX + SOUND + 10;
const DIFFERENCE = 150;

export class Scene extends TimelineCanvas {
  constructor(canvas, parts) {
    super(canvas);
    const { takes, rows, reference } = parts.view;
    this.rows = rows;
    this.reference = reference;
    this.takes = takes.map((take, k) => {
      const pcm = parts[`pcm${k}`];
      const peaks = new Peaks(pcm);
      const { low, high } = peaks.levels.at(-1);
      const loudest = Math.max(1, ...high, ...low.map((value) => -value));
      const maps = { own: new TimeMap(take.own), byWord: take.by_word && new TimeMap(take.by_word) };
      const words = take.said.map(([text, start, end, isEstimate], index) => ({
        text,
        isEstimate,
        startMs: 1000 * start,
        endMs: 1000 * end,
        row: rows.findIndex((row) => row[k] === index),
      }));
      return {
        name: take.name,
        rateHz: take.rate_hz,
        pcm,
        peaks,
        loudest,
        words,
        maps,
        picture: heardPicture(pcm, take.rate_hz),
      };
    });
    this.isStretched = parts.view.can_stretch;
    this.isSpectral = false;
    this.heard = 0;
    this.difference = null; // {picture, one, other}
    this.pair = null; // requested pair [one, other]
    this.chosen = null; // selected row
    this.atMs = 0;
    this.axis = new Axis(0, this.endMs, 1);
    this.recolour();
  }

  /** The active time map of each utterance. */
  get maps() {
    return this.takes.map(({ maps }) => (this.isStretched ? maps.byWord : maps.own));
  }

  get endMs() {
    return Math.max(1, ...this.maps.map((map) => map.endMs));
  }

  get height() {
    return RULER + LANE * this.takes.length + (this.takes.length > 1 ? NAME + DIFFERENCE : 0);
  }

  lane(k) {
    return RULER + LANE * k;
  }

  /** A CSS mask that keeps the playhead off the lane names. */
  get maskOfNames() {
    const lanes = this.takes.length + (this.takes.length > 1 ? 1 : 0); // the last one shows the difference
    const gaps = Array.from({ length: lanes }, (_, k) => [this.lane(k) + 1, this.lane(k) + NAME]);
    return `linear-gradient(${gaps.map(([top, end]) => `#000 ${top}px, transparent ${top}px ${end}px, #000 ${end}px`).join(", ")})`;
  }

  /** Switch word alignment on or off; the centre of the view stays in place. */
  stretch(isOn) {
    const { axis, isWholeShown: isWhole } = this;
    const middle = this.maps[this.heard].own((axis.leftMs + axis.rightMs) / 2);
    const selected = this.selection?.map((ms) => this.maps[this.heard].own(ms));
    const span = axis.spanMs;
    this.isStretched = isOn;
    this.difference = null;
    axis.firstMs = 0;
    axis.lastMs = this.endMs;
    axis.resize(axis.width);
    const at = this.maps[this.heard].axis(middle);
    if (isWhole) axis.fit();
    else axis.show(at - span / 2, at + span / 2);
    this.selection = selected?.map((ms) => this.maps[this.heard].axis(ms)) ?? null;
    this.ask();
  }

  /** Set the spectral difference of a pair. */
  take({ view, db }) {
    const picture = differencePicture(db, view.bands, view.step_ms);
    picture.recolour(isDark());
    this.difference = { picture, one: view.one, other: view.other, endMs: (db.length / view.bands) * view.step_ms };
    this.ask();
  }

  recolour() {
    this.readColours();
    for (const { picture } of [...this.takes, ...(this.difference ? [this.difference] : [])])
      picture.recolour(isDark());
    this.ask();
  }

  resize() {
    if (this.canvas.clientWidth) this.fitTo(this.canvas.clientWidth, this.height);
  }

  drawAll() {
    this.paint.lineWidth = 1;
    this.clear(this.height);
    drawRuler(this, { y: 0, height: RULER });
    this.shade(RULER, this.height);
    this.spend = budget();
    const isWhole = this.takes.map((take, k) => this.drawTake(take, k)).every(Boolean);
    const isSeen = this.takes.length < 2 || this.drawDifference(this.lane(this.takes.length));
    this.drawn++;
    if (!isWhole || !isSeen) this.ask();
    this.onDrawn?.();
  }

  drawTake(take, k) {
    const { paint, colours } = this;
    const y = this.lane(k);
    const isHeard = k === this.heard;
    if (k) {
      paint.fillStyle = colours.line;
      paint.fillRect(0, y, this.axis.width, 1);
    }
    this.label(`${k + 1}  ${take.name}`, y + NAME / 2 + 2, isHeard ? colours.accent : colours.muted);
    this.drawWords(take, k, y + NAME);
    return this.isSpectral
      ? this.drawSpectrum(take, k, y + NAME + BOX + 4)
      : this.drawWave(take, k, y + NAME + BOX + 4, isHeard);
  }

  label(text, middle, colour) {
    const { paint, axis } = this;
    paint.font = `600 12px ${FONT}`;
    paint.textAlign = "left";
    paint.textBaseline = "middle";
    const width = Math.min(paint.measureText(text).width, axis.width - 12);
    paint.fillStyle = this.colours.panel;
    paint.fillRect(0, middle - 9, width + 12, 18);
    paint.fillStyle = colour;
    paint.fillText(text, 6, middle, axis.width - 12);
  }

  drawWords(take, k, y) {
    const { paint, axis, colours } = this;
    const map = this.maps[k];
    paint.font = `12px ${FONT}`;
    paint.textBaseline = "middle";
    paint.textAlign = "center";
    for (const word of take.words) {
      const x = axis.x(map.axis(word.startMs));
      const width = axis.x(map.axis(word.endMs)) - x;
      if (x > axis.width || x + width < 0) continue;
      const isChosen = word.row >= 0 && word.row === this.chosen;
      const isNow = k === this.heard && this.isAt(word, map);
      const shade =
        word.row < 0
          ? colours.faint
          : `color-mix(in srgb, ${colours.good} ${word.row % 2 ? 28 : 16}%, ${colours.panel})`;
      paint.fillStyle = isNow ? colours.good : shade;
      paint.fillRect(x, y, Math.max(1, width - (width > 4 ? 1 : 0)), BOX);
      if (word.isEstimate) {
        paint.strokeStyle = colours.ink;
        paint.setLineDash([4, 3]);
        paint.strokeRect(x + 0.5, y + 0.5, Math.max(1, width - 2), BOX - 1);
        paint.setLineDash([]);
      }
      if (isChosen) {
        paint.strokeStyle = colours.accent;
        paint.lineWidth = 2;
        paint.strokeRect(x + 1, y + 1, Math.max(1, width - 3), BOX - 2);
        paint.lineWidth = 1;
      }
      const left = Math.max(0, x);
      const room = Math.min(axis.width, x + width) - left - 4;
      if (room < 6 || paint.measureText(word.text).width > room) continue;
      paint.fillStyle = isNow ? colours.panel : word.row < 0 ? colours.warn : colours.ink;
      paint.fillText(word.text, left + 2 + room / 2, y + BOX / 2 + 0.5);
    }
  }

  isAt(word, map) {
    const own = map.own(this.atMs);
    return word.startMs <= own && own < word.endMs;
  }

  drawWave(take, k, y, isHeard) {
    const { paint, axis, colours } = this;
    const map = this.maps[k];
    const middle = y + SOUND / 2;
    const scale = (SOUND / 2 - 1) / take.loudest;
    const perMs = take.rateHz / 1000;
    paint.fillStyle = isHeard ? colours.accent : colours.muted;
    const last = Math.min(axis.width, Math.ceil(axis.x(map.axis(take.pcm.length / perMs))));
    let before = map.own(axis.ms(Math.max(0, Math.floor(axis.x(0))))) * perMs;
    for (let px = Math.max(0, Math.floor(axis.x(0))); px < last; px++) {
      const after = map.own(axis.ms(px + 1)) * perMs;
      if (after > before) {
        const [low, high] = take.peaks.of(Math.max(0, before), after);
        paint.fillRect(px, middle - high * scale, 1, Math.max(1, (high - low) * scale));
      }
      before = after;
    }
    return true;
  }

  /** Draw a spectrogram piecewise, each piece scaled to the axis. */
  drawSpectrum(take, k, y) {
    const { paint, axis, colours } = this;
    const { axisMs, ownMs } = this.maps[k];
    const perMs = take.rateHz / 1000;
    paint.fillStyle = colours.faint;
    paint.fillRect(0, y, axis.width, SOUND);
    let isWhole = true;
    for (let n = 1; n < axisMs.length; n++) {
      if (
        axisMs[n] < axis.leftMs ||
        axisMs[n - 1] > axis.rightMs ||
        ownMs[n] <= ownMs[n - 1] ||
        axisMs[n] <= axisMs[n - 1]
      )
        continue;
      const x = axis.x(axisMs[n - 1]);
      const width = axis.x(axisMs[n]) - x;
      isWhole =
        take.picture.draw(paint, ownMs[n - 1] * perMs, ownMs[n] * perMs, x, width, y, SOUND, this.spend) && isWhole;
    }
    return isWhole;
  }

  drawDifference(y) {
    const { paint, axis, colours, difference } = this;
    paint.fillStyle = colours.line;
    paint.fillRect(0, y, axis.width, 1);
    paint.fillStyle = colours.faint;
    paint.fillRect(0, y + NAME, axis.width, DIFFERENCE);
    const [one, other] = this.pair ?? [0, 1];
    this.label(
      `spectrum of ${other + 1} less that of ${one + 1}, at equal level${difference ? "" : " …"}`,
      y + NAME / 2 + 1,
      colours.muted,
    );
    if (!difference) return true;
    const [left, right] = [Math.max(0, axis.leftMs), Math.min(difference.endMs, axis.rightMs)];
    if (right <= left) return true;
    return difference.picture.draw(
      paint,
      left,
      right,
      axis.x(left),
      axis.x(right) - axis.x(left),
      y + NAME,
      DIFFERENCE,
      this.spend,
    );
  }

  /** Index of the utterance whose lane contains `y`; null below the lanes. */
  takeAt(y) {
    const k = Math.floor((y - RULER) / LANE);
    return k >= 0 && k < this.takes.length ? k : null;
  }

  /** The word at a point as {i: row, word, take}, or null. */
  wordAt(ms, y) {
    const k = this.takeAt(y) ?? this.heard;
    const own = this.maps[k].own(ms);
    const word = this.takes[k].words.find((one) => one.startMs <= own && own < one.endMs);
    return word ? { i: word.row < 0 ? null : word.row, word, take: k } : null;
  }
}
