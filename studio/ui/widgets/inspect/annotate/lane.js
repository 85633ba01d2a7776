// Lane of one annotation layer: marks in rows, coloured and numbered by label.

import { FONT } from "../../timeline/ruler.js";
import { msAt, rowsOf } from "./positions.js";

const ROW = 22;
const GAP = 5; // above and below the rows
const MOST_ROWS = 12; // further rows overlap the last
const LEAST_PX = 0.75; // least distance between drawn marks
// Okabe-Ito palette (colour-blind safe); labels also carry numbers.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b5a800", "#8c6bb1", "#7f7f7f"];

/** Colour of a label by its index in the layer's label set. */
export function colourOf(layer, label) {
  const index = layer.labels.indexOf(label);
  return index < 0 ? "#7f7f7f" : COLOURS[index % COLOURS.length];
}

/** A label with its number key, if any. */
export function numbered(layer, label) {
  const index = layer.labels.indexOf(label);
  return index >= 0 && index < 9 ? `${index + 1} ${label}` : label;
}

export class Lane {
  /** `who`: annotator of a read-only lane; empty for own lanes. */
  constructor(layer, marks, who = "") {
    this.id = who ? `other:${who}:${layer.id}` : layer.id;
    this.who = who;
    this.chosen = null;
    this.preview = null; // preview of a mark being added or moved
    this.isActive = false;
    this.alone = null; // ids of marks without a match in other annotators' layers
    this.take(layer, marks);
  }

  take(layer, marks) {
    this.layer = layer;
    this.rows = rowsOf(marks);
    this.height = 2 * GAP + ROW * Math.max(1, Math.min(MOST_ROWS, this.rows.length));
  }

  get title() {
    return this.who ? `${this.layer.name} · ${this.who}` : this.layer.name;
  }

  draw(scene, { y, height }) {
    const { paint, axis, colours } = scene;
    paint.fillStyle = this.isActive ? colours["accent-soft"] : colours.faint;
    paint.globalAlpha = this.isActive || this.who ? 0.6 : 0;
    paint.fillRect(0, y, axis.width, height);
    paint.globalAlpha = 1;
    paint.fillStyle = colours.line;
    paint.fillRect(0, y + height - 1, axis.width, 1);
    this.rows.forEach((row, k) => {
      const top = y + GAP + ROW * Math.min(k, MOST_ROWS - 1);
      let drawnTo = -Infinity;
      for (let n = firstSeen(scene, row); n < row.length; n++) {
        const mark = row[n];
        const left = axis.x(msAt(scene, mark.start));
        if (left > axis.width) break;
        const right = axis.x(msAt(scene, mark.end, true));
        if (right - drawnTo < LEAST_PX && mark.id !== this.chosen) continue;
        drawnTo = right;
        const until = n + 1 < row.length ? axis.x(msAt(scene, row[n + 1].start)) : axis.width;
        if (mark.id !== this.preview?.id) this.drawMark(scene, mark, left, right, top, until);
      }
    });
    if (!this.preview) return;
    const row = this.rows.findIndex((marks) => marks.some(({ id }) => id === this.preview.id));
    const top = y + GAP + ROW * Math.min(Math.max(0, row), MOST_ROWS - 1);
    this.drawMark(
      scene,
      this.preview,
      axis.x(msAt(scene, this.preview.start)),
      axis.x(msAt(scene, this.preview.end, true)),
      top,
    );
  }

  /** `until`: x of the next point; a label that would reach it is not drawn. */
  drawMark(scene, mark, left, right, top, until = scene.axis.width) {
    const { paint, axis, colours } = scene;
    const colour = colourOf(this.layer, mark.label);
    const isChosen = mark.id === this.chosen || mark === this.preview;
    const text = numbered(this.layer, mark.label);
    paint.lineWidth = isChosen ? 2 : 1;
    paint.strokeStyle = isChosen ? colours.ink : colour;
    paint.font = `12px ${FONT}`;
    paint.textBaseline = "middle";
    paint.textAlign = "left";
    if (this.layer.kind === "points") {
      const x = Math.round(left) + 0.5;
      paint.fillStyle = isChosen ? colours.ink : colour;
      paint.fillRect(x - 1, top, isChosen ? 3 : 2, ROW - 2);
      paint.beginPath();
      paint.arc(x, top + 5, 4, 0, 7);
      paint.fill();
      const width = paint.measureText(text).width;
      if (text && x + 14 + width < Math.min(until, axis.width)) {
        paint.fillStyle = colours.panel;
        paint.globalAlpha = 0.8;
        paint.fillRect(x + 6, top + 2, width + 4, ROW - 6);
        paint.globalAlpha = 1;
        paint.fillStyle = colours.ink;
        paint.fillText(text, x + 8, top + ROW / 2 - 1);
      }
      paint.lineWidth = 1;
      return;
    }
    const width = Math.max(2, right - left);
    paint.fillStyle = `color-mix(in srgb, ${colour} ${isChosen ? 42 : 26}%, ${colours.panel})`;
    paint.fillRect(left, top, width, ROW - 3);
    if (this.alone?.has(mark.id)) paint.setLineDash([3, 3]);
    if (width > 3) paint.strokeRect(Math.round(left) + 0.5, top + 0.5, Math.max(1, Math.round(width) - 1), ROW - 4);
    else {
      paint.fillStyle = colour;
      paint.fillRect(left, top, width, ROW - 3);
    }
    paint.setLineDash([]);
    paint.lineWidth = 1;
    const from = Math.max(left, 0);
    if (!text || paint.measureText(text).width > Math.min(right, axis.width) - from - 8) return;
    paint.fillStyle = colours.ink;
    paint.fillText(text, from + 5, top + (ROW - 3) / 2 + 0.5);
  }

  /** The mark within `within` px of a point; of several the one in that row, then the shortest. */
  at(scene, x, y, within) {
    const row = Math.max(0, Math.floor((y - GAP) / ROW));
    const near = [];
    this.rows.forEach((marks, k) => {
      for (let n = firstSeen(scene, marks, within); n < marks.length; n++) {
        const left = scene.axis.x(msAt(scene, marks[n].start));
        if (left - within > x) break;
        if (scene.axis.x(msAt(scene, marks[n].end, true)) + within >= x)
          near.push({ mark: marks[n], off: Math.min(k, MOST_ROWS - 1) - row });
      }
    });
    near.sort(
      (one, other) =>
        Math.abs(one.off) - Math.abs(other.off) || one.mark.end - one.mark.start - (other.mark.end - other.mark.start),
    );
    return near.length && Math.abs(near[0].off) < 1 ? near[0].mark : null;
  }
}

/** Index of the first visible mark of a row; starts and ends are sorted within a row. */
function firstSeen(scene, row, within = 0) {
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (scene.axis.x(msAt(scene, row[middle].end, true)) + within < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
