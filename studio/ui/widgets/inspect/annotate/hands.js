// Hands and keys on the lanes: a drag makes a region, a click a point; edges and marks are dragged.

import { msAt, SNAPS, sampleNear } from "./places.js";

const EDGE_PX = 6;
const MOVED_PX = 4;

export class Hands {
  constructor(annotator) {
    this.annotator = annotator;
    this.scene = annotator.scene;
    this.began = null;
  }

  /** The lane at a height of the picture, and how far down it; mine alone, where it is to be changed. */
  lane(y, isMine = true) {
    const place = Object.values(this.scene.places).find((one) => one.lane && y >= one.y && y < one.y + one.height);
    return place && !(isMine && place.lane.who) ? { lane: place.lane, down: y - place.y } : null;
  }

  /** The mark at a place, in words; anybody's. */
  story(x, y) {
    const found = this.lane(y, false);
    const mark = found?.lane.at(this.scene, x, found.down, EDGE_PX);
    return mark ? this.annotator.panel.story(mark) : "";
  }

  /** Which part of the mark a hand is on: start, end or whole. */
  part(lane, mark, x) {
    const { axis } = this.scene;
    const [left, right] = [axis.x(msAt(this.scene, mark.start)), axis.x(msAt(this.scene, mark.end, true))];
    if (lane.layer.kind === "points") return "whole";
    const [toLeft, toRight] = [Math.abs(x - left), Math.abs(x - right)];
    const most = Math.min(EDGE_PX, Math.max(2, (right - left) / 3));
    if (Math.min(toLeft, toRight) > most && x > left && x < right) return "whole";
    return toLeft <= toRight ? "start" : "end";
  }

  // Each answers whether the hand is on a lane, so that nothing else is done.

  down(x, y) {
    const { annotator, scene } = this;
    const found = this.lane(y);
    if (!found) return false;
    annotator.activate(found.lane.id);
    const mark = found.lane.at(scene, x, found.down, EDGE_PX);
    const sample = sampleNear(scene, scene.axis.ms(x));
    this.began = { x, sample, lane: found.lane, mark, part: mark && this.part(found.lane, mark, x), moved: false };
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
    began.lane.ghost = this.made(sampleNear(scene, scene.axis.ms(x)));
    scene.ask();
    this.annotator.viewer.hover(scene.axis.ms(x), y);
    return true;
  }

  up(isWhole) {
    const { began, annotator, scene } = this;
    if (!began) return false;
    const { ghost } = began.lane;
    began.lane.ghost = null;
    this.began = null;
    scene.ask();
    if (!isWhole) return true;
    if (began.moved && ghost) {
      if (began.mark) annotator.change({ start: ghost.start, end: ghost.end }, began.mark.id);
      else annotator.add(ghost.start, ghost.end);
    } else if (!began.moved && !began.mark) {
      if (began.lane.layer.kind === "points") annotator.add(began.sample, began.sample);
      else {
        annotator.choose(null);
        annotator.viewer.jump(scene.axis.ms(began.x));
      }
    }
    return true;
  }

  double(x, y) {
    const found = this.lane(y);
    if (!found) return false;
    if (this.annotator.mark) this.annotator.playMark();
    return true;
  }

  /** What the drag makes, with its edges snapped. */
  made(sample) {
    const { began, annotator } = this;
    const { mark, part } = began;
    const isPoint = began.lane.layer.kind === "points";
    const { samples } = annotator.document;
    if (!mark) {
      const [start, end] = [began.sample, sample].sort((one, other) => one - other).map((at) => annotator.edge(at));
      return isPoint ? { id: "", start: annotator.edge(sample), end: annotator.edge(sample), label: annotator.label } : { id: "", start, end, label: annotator.label };
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

  /** What the pointer looks like over a mark. */
  point(x, y) {
    const found = this.lane(y);
    const mark = found?.lane.at(this.scene, x, found.down, EDGE_PX);
    const cursor = !mark ? "" : this.part(found.lane, mark, x) === "whole" ? "grab" : "ew-resize";
    if (this.scene.canvas.style.cursor !== cursor) this.scene.canvas.style.cursor = cursor;
  }

  /** A key on the picture; answers whether it was one of ours. */
  pressed(e) {
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
    const act = label === undefined ? keys[key] : () => annotator.give(label);
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
