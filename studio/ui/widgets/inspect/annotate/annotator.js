// Annotation of one utterance: document, lanes on the canvas, pointer and keyboard input, panel.

import { AnnotationInput } from "./annotation_input.js";
import { merge, reload, restore } from "./conflicts.js";
import { Document, freshId } from "./document.js";
import { Lane } from "./lane.js";
import { Panel } from "./panel.js";
import { msAt, sampleNear, snapped } from "./positions.js";
import { Saver } from "./saver.js";

const SNAP_KEY = "studio-annotation-snap";
const AROUND_MS = 60; // played on each side of a point

export class Annotator {
  /**
   * `source` has `load()`, `send(edit)`, `canLayer` (layers may be added and edited) and, for an owner, `others()` and
   * `other(name)`; `container` is the panel's parent element.
   */
  static async open(viewer, source, container) {
    const data = await source.load();
    return viewer.closing.signal.aborted ? null : new Annotator(viewer, source, container, data);
  }

  constructor(viewer, source, container, data) {
    this.viewer = viewer;
    this.source = source;
    this.onChanged = null;
    this.scene = viewer.scene;
    this.snap = localStorage.getItem(SNAP_KEY) ?? "off";
    this.others = new Map(); // lanes by annotator
    this.lanes = new Map(); // lanes by layer id
    this.chosen = null; // id of the selected mark in the active layer
    this.label = ""; // label of new marks
    this.pending = null; // start of a region being added by keyboard
    this.document = new Document(data, (touched, changes) => this.changed(touched, changes));
    const showState = (...status) => this.saver.conflicts.length || this.panel.showState(...status); // keep an open question
    this.saver = new Saver(
      this.document,
      (edit) => source.send(edit),
      showState,
      (error) => merge(this, error),
      `studio-unsaved ${source.key}`,
    );
    this.active = [...this.document.layers.keys()][0] ?? null;
    this.panel = new Panel(this, container);
    viewer.annotationInput = new AnnotationInput(this);
    this.label = this.layer?.labels[0] ?? "";
    this.layout();
    const onBeforeUnload = (event) => this.saver.isSaved || event.preventDefault();
    addEventListener("beforeunload", onBeforeUnload, { signal: viewer.closing.signal });
    viewer.closing.signal.addEventListener("abort", () => this.close());
    this.panel.showState("saved");
    restore(this, this.saver.stored());
    viewer.annotator = this; // for tests
  }

  close() {
    this.saver.close();
    this.panel.close();
  }

  get layer() {
    return this.document.layers.get(this.active) ?? null;
  }

  get mark() {
    return this.layer?.marks.get(this.chosen) ?? null;
  }

  // ------------------------------------------------------------ changes

  changed(touched, changes) {
    if (changes) this.saver.add(changes);
    if (!this.document.layers.has(this.active)) this.activate([...this.document.layers.keys()][0] ?? null);
    if (this.chosen && !this.mark) this.choose(null);
    this.layout(touched);
    this.onChanged?.();
  }

  /** Update the lanes, own ones first; only layers in `touched` are laid out again. */
  layout(touched = null) {
    const { document, scene } = this;
    const mine = [...document.layers.values()].map((layer) => {
      const before = this.lanes.get(layer.id);
      if (before && touched && !touched.has(layer.id)) return before;
      const lane = before ?? new Lane(layer, []);
      lane.take(layer, document.sorted(layer));
      return lane;
    });
    this.lanes = new Map(mine.map((lane) => [lane.id, lane]));
    for (const lane of mine) {
      lane.isActive = lane.id === this.active;
      lane.chosen = lane.isActive ? this.chosen : null;
    }
    for (const lane of [...mine, ...[...this.others.values()].flat()])
      lane.alone = this.single?.get(lane.who || document.annotator) ?? null;
    scene.laneMarks([...mine, ...[...this.others.values()].flat()]);
    this.panel?.show();
  }

  /** Drop unsaved changes and reload. */
  discard() {
    return reload(this, () => this.panel.showState("saved"));
  }

  /** Replace the document with the server's. */
  loaded(data) {
    this.document.load(data);
    this.changed(null, null);
  }

  /** Draw marks that only one annotator of each pair has as dashed. */
  markUnmatched(pairs) {
    this.single = new Map(); // mark ids by annotator
    for (const { one, other, only_one: onlyOne, only_other: onlyOther } of pairs) {
      for (const [who, ids] of [
        [one, onlyOne],
        [other, onlyOther],
      ]) {
        const before = this.single.get(who);
        this.single.set(who, new Set(before ? ids.filter((id) => before.has(id)) : ids));
      }
    }
    this.layout(new Set());
  }

  // ------------------------------------------------------------ selection

  activate(id) {
    if (this.active === id) return;
    this.active = id;
    this.pending = null;
    this.chosen = null;
    this.label = this.layer?.labels[0] ?? "";
    this.layout(new Set());
  }

  stepLayer(by) {
    const ids = [...this.document.layers.keys()];
    const at = ids.indexOf(this.active);
    if (ids.length) this.activate(ids[Math.min(ids.length - 1, Math.max(0, at + by))]);
    this.panel.announce(this.layer ? `Layer ${this.layer.name}` : "");
  }

  /** Select a mark of the active layer; `shows` scrolls to it. */
  choose(id, shows = false) {
    this.chosen = id;
    const { mark, scene, viewer } = this;
    for (const lane of this.lanes.values()) lane.chosen = lane.id === this.active ? id : null;
    if (mark) {
      const [start, end] = [msAt(scene, mark.start), msAt(scene, mark.end, true)];
      scene.selection = mark.end > mark.start ? [start, end] : null;
      scene.chosen = null;
      if (shows) viewer.jump(start);
      else viewer.player.place(start);
    } else scene.selection = null;
    viewer.changed();
    scene.ask();
    this.panel.show();
  }

  stepMark(by) {
    if (!this.layer) return;
    const marks = this.document.sorted(this.layer);
    const at = marks.findIndex(({ id }) => id === this.chosen);
    const here = sampleNear(this.scene, this.viewer.player.atMs);
    const next =
      at >= 0
        ? at + by
        : by > 0
          ? marks.findIndex(({ start }) => start >= here)
          : marks.findLastIndex(({ start }) => start < here);
    const mark = marks[Math.min(marks.length - 1, Math.max(0, next))];
    if (!mark) return;
    this.choose(mark.id, true);
    this.panel.announce(this.panel.describe(mark));
  }

  playMark() {
    const { mark, scene, viewer } = this;
    if (!mark) return;
    const wide = mark.end > mark.start ? 0 : AROUND_MS;
    viewer.player.play(msAt(scene, mark.start) - wide, msAt(scene, mark.end, true) + wide);
  }

  // ------------------------------------------------------------ commands

  setSnap(how) {
    this.snap = how;
    localStorage.setItem(SNAP_KEY, how);
    this.panel.show();
  }

  /** Snap an edge. */
  edge(sample) {
    return snapped(this.scene, sample, this.snap);
  }

  /** Add a mark to the active layer, in samples; an empty region is ignored. */
  add(start, end) {
    const { layer } = this;
    if (!layer) return this.panel.announce("Add a layer first.");
    const [from, to] = [this.edge(Math.min(start, end)), this.edge(Math.max(start, end))];
    const isPoint = layer.kind === "points";
    if (!isPoint && from === to) return undefined;
    const mark = { id: freshId(), start: from, end: isPoint ? from : to, label: this.label, note: "" };
    this.document.putMark(layer.id, mark);
    this.choose(mark.id);
    return this.panel.announce(`Marked ${this.panel.describe(mark)}`);
  }

  /** Change fields of a mark in the active layer, by default the selected one. */
  change(what, id = this.chosen) {
    const mark = this.layer?.marks.get(id);
    if (!mark) return;
    const next = { ...mark, ...what };
    if (this.layer.kind === "points") next.end = next.start;
    else if (next.end <= next.start) return;
    if (Object.keys(next).every((name) => next[name] === mark[name])) return;
    this.document.putMark(this.layer.id, next);
    if (id === this.chosen) this.choose(id);
  }

  /** Move an edge of the selected mark by one frame if edges snap to frames, else by 10 ms or 1 ms (`isFine`). */
  nudge(edge, by, isFine) {
    const { mark, scene } = this;
    if (!mark) return;
    const step =
      this.snap === "frame" && scene.frameSamples
        ? scene.frameSamples
        : Math.round(((isFine ? 1 : 10) * scene.rateHz) / 1000);
    const at = Math.max(0, Math.min(this.document.samples, mark[edge] + by * step));
    this.change({ [edge]: at });
  }

  remove() {
    if (!this.mark) return;
    const description = this.panel.describe(this.mark);
    this.document.dropMark(this.active, this.chosen);
    this.panel.announce(`Removed ${description}`);
  }

  /** Set the label of the selected mark and of new marks. */
  applyLabel(label) {
    this.label = label;
    if (this.mark) this.change({ label });
    this.panel.show();
  }

  /** Add a mark by keyboard: the selection, else at the playhead; a region needs two calls. */
  markHere() {
    const { scene, viewer, layer } = this;
    if (!layer) return this.panel.announce("Add a layer first.");
    const here = sampleNear(scene, viewer.player.atMs);
    if (layer.kind === "points") return this.add(here, here);
    if (scene.selection && !this.mark) return this.add(...scene.selection.map((ms) => sampleNear(scene, ms)));
    if (this.pending === null) {
      this.choose(null);
      this.pending = here;
      return this.panel.announce("Region start set. Press M again at its end.");
    }
    const start = this.pending;
    this.pending = null;
    return this.add(start, here);
  }

  undo() {
    this.panel.announce(this.document.undo() ? "Undone" : "Nothing to undo");
  }

  redo() {
    this.panel.announce(this.document.redo() ? "Redone" : "Nothing to redo");
  }

  /** Show or hide another annotator's layers. */
  async showOther(name, isShown) {
    if (!isShown) this.others.delete(name);
    else {
      const { layers } = new Document(await this.source.other(name), () => {});
      const lanes = [...layers.values()].map(
        (layer) =>
          new Lane(
            layer,
            [...layer.marks.values()].sort((a, b) => a.start - b.start || a.end - b.end),
            name,
          ),
      );
      this.others.set(name, lanes);
    }
    this.layout(new Set());
  }
}
