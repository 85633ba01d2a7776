// Pointer and keyboard input on annotation lanes: a drag adds a region, a click a point; edges and marks can be dragged.

import { msAt, SNAPS, sampleNear } from "./positions.js";

const EDGE_PX = 6;
const MOVED_PX = 4;

export class AnnotationInput {
  constructor(annotator) {
    this.annotator = annotator;
    this.scene = annotator.scene;
    this.began = null;
  }

  /** The lane at `y` as {lane, down: offset in it}, or null; `isMine`: own lanes only. */
  lane(y, isMine = true) {
    const box = Object.values(this.scene.boxes).find((one) => one.lane && y >= one.y && y < one.y + one.height);
    return box && !(isMine && box.lane.who) ? { lane: box.lane, down: y - box.y } : null;
  }

  /** Description of the mark at a point, of any annotator. */
  describe(x, y) {
    const hit = this.lane(y, false);
    const mark = hit?.lane.at(this.scene, x, hit.down, EDGE_PX);
    return mark ? this.annotator.panel.describe(mark) : "";
  }

  /** Part of the mark under the pointer: start, end or whole. */
  part(lane, mark, x) {
    const { axis } = this.scene;
    const [left, right] = [axis.x(msAt(this.scene, mark.start)), axis.x(msAt(this.scene, mark.end, true))];
    if (lane.layer.kind === "points") return "whole";
    const [toLeft, toRight] = [Math.abs(x - left), Math.abs(x - right)];
    const most = Math.min(EDGE_PX, Math.max(2, (right - left) / 3));
    if (Math.min(toLeft, toRight) > most && x > left && x < right) return "whole";
    return toLeft <= toRight ? "start" : "end";
  }

  // Each returns whether the event was on a lane and is handled.

  down(x, y) {
    const { annotator, scene } = this;
    const hit = this.lane(y);
    if (!hit) return false;
    annotator.activate(hit.lane.id);
    const mark = hit.lane.at(scene, x, hit.down, EDGE_PX);
    const sample = sampleNear(scene, scene.axis.ms(x));
    this.began = { x, sample, lane: hit.lane, mark, part: mark && this.part(hit.lane, mark, x), moved: false };
    if (mark) annotator.choose(mark.id);
    return true;
  }

  move(x, y) {
    const { began, scene } = this;
    if (!began) {
      this.point(x, y);
      return false;
    }
    if (!began.moved && Math.abs(x - began.x) <= MOVED_PX) return true;
    began.moved = true;
    began.lane.preview = this.draft(sampleNear(scene, scene.axis.ms(x)));
    scene.ask();
    this.annotator.viewer.hover(scene.axis.ms(x), y);
    return true;
  }

  up(isWhole) {
    const { began, annotator, scene } = this;
    if (!began) return false;
    const { preview } = began.lane;
    began.lane.preview = null;
    this.began = null;
    scene.ask();
    if (!isWhole) return true;
    if (began.moved && preview) {
      if (began.mark) annotator.change({ start: preview.start, end: preview.end }, began.mark.id);
      else annotator.add(preview.start, preview.end);
    } else if (!began.moved && !began.mark) {
      if (began.lane.layer.kind === "points") annotator.add(began.sample, began.sample);
      else {
        annotator.choose(null);
        annotator.viewer.jump(scene.axis.ms(began.x));
      }
    }
    return true;
  }

  double(_x, y) {
    const hit = this.lane(y);
    if (!hit) return false;
    if (this.annotator.mark) this.annotator.playMark();
    return true;
  }

  /** The mark that the drag produces, with snapped edges. */
  draft(sample) {
    const { began, annotator } = this;
    const { mark, part } = began;
    const isPoint = began.lane.layer.kind === "points";
    const { samples } = annotator.document;
    if (!mark) {
      const [start, end] = [began.sample, sample].sort((one, other) => one - other).map((at) => annotator.edge(at));
      return isPoint
        ? { id: "", start: annotator.edge(sample), end: annotator.edge(sample), label: annotator.label }
        : { id: "", start, end, label: annotator.label };
    }
    if (part === "whole") {
      const length = mark.end - mark.start;
      const start = Math.max(0, Math.min(samples - length, annotator.edge(mark.start + sample - began.sample)));
      return { ...mark, start, end: start + length };
    }
    const other = part === "start" ? mark.end : mark.start;
    const [start, end] = [annotator.edge(sample), other].sort((one, another) => one - another);
    return start === end ? mark : { ...mark, start, end };
  }

  /** Cursor shape over a mark. */
  point(x, y) {
    const hit = this.lane(y);
    const mark = hit?.lane.at(this.scene, x, hit.down, EDGE_PX);
    const cursor = !mark ? "" : this.part(hit.lane, mark, x) === "whole" ? "grab" : "ew-resize";
    if (this.scene.canvas.style.cursor !== cursor) this.scene.canvas.style.cursor = cursor;
  }

  /** Handle a key on the canvas; returns whether it was handled. */
  onKey(e) {
    const { annotator } = this;
    const key = e.key.length === 1 ? e.key.toLowerCase() : e.key;
    if (e.ctrlKey || e.metaKey) {
      if (key === "z") e.shiftKey ? annotator.redo() : annotator.undo();
      else if (key === "y") annotator.redo();
      else return false;
      e.preventDefault();
      return true;
    }
    if (e.altKey) return false;
    const keys = {
      m: () => annotator.markHere(),
      ",": () => annotator.stepMark(-1),
      ".": () => annotator.stepMark(1),
      ArrowUp: () => annotator.stepLayer(-1),
      ArrowDown: () => annotator.stepLayer(1),
      q: () => annotator.nudge("start", -1, e.shiftKey),
      w: () => annotator.nudge("start", 1, e.shiftKey),
      o: () => annotator.nudge("end", -1, e.shiftKey),
      p: () => annotator.nudge("end", 1, e.shiftKey),
      x: () => annotator.setSnap(SNAPS[(SNAPS.indexOf(annotator.snap) + 1) % SNAPS.length]),
      Delete: () => annotator.remove(),
      Backspace: () => annotator.remove(),
      Enter: () => (annotator.mark ? annotator.panel.type() : annotator.markHere()),
    };
    const label = /^[1-9]$/.test(key) ? annotator.layer?.labels[Number(key) - 1] : undefined;
    const act = label === undefined ? keys[key] : () => annotator.applyLabel(label);
    if (!act) {
      if (e.key === "Escape") {
        annotator.pending = null;
        annotator.choose(null);
      }
      return false;
    }
    e.preventDefault();
    act();
    return true;
  }
}
