// Annotation of one utterance: the document, its lanes in the picture, hands and keys on them, the panel beside it.

import { Document, freshId } from "./document.js";
import { Hands } from "./hands.js";
import { Lane } from "./lane.js";
import { Panel } from "./panel.js";
import { msAt, sampleNear, snapped } from "./places.js";
import { Saver } from "./saver.js";

const SNAP_KEPT = "studio-annotation-snap";
const AROUND_MS = 60; // that is played on each side of a point

export class Annotator {
  /**
   * `source` has `load()`, `send(edit)`, `canLayer` (layers may be made and changed) and, for an owner, `others()` and
   * `other(name)`; `place` is the element that the panel goes into.
   */
  static async open(viewer, source, place) {
    const data = await source.load();
    return viewer.gone.signal.aborted ? null : new Annotator(viewer, source, place, data);
  }

  constructor(viewer, source, place, data) {
    Object.assign(this, { viewer, source, scene: viewer.scene });
    this.snap = localStorage.getItem(SNAP_KEPT) ?? "off";
    this.others = new Map(); // by annotator: their lanes
    this.lanes = new Map(); // by layer
    this.chosen = null; // a mark's id, of the active layer
    this.label = ""; // what new marks get
    this.pending = null; // where a region that is made by keys begins
    this.document = new Document(data, (touched, changes) => this.changed(touched, changes));
    const tell = (...said) => this.saver.conflicts.length || this.panel.tell(...said); // a question stays
    this.saver = new Saver(this.document, (edit) => source.send(edit), tell, (error) => this.merge(error), `studio-unsaved ${source.key}`);
    this.active = [...this.document.layers.keys()][0] ?? null;
    this.panel = new Panel(this, place);
    viewer.hands = new Hands(this);
    this.label = this.layer?.labels[0] ?? "";
    this.lay();
    const guard = (event) => this.saver.isSaved || event.preventDefault();
    addEventListener("beforeunload", guard, { signal: viewer.gone.signal });
    viewer.gone.signal.addEventListener("abort", () => this.close());
    this.panel.tell("saved");
    this.restore(this.saver.stored());
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

  // ------------------------------------------------------------ what changed

  changed(touched, changes) {
    if (changes) this.saver.add(changes);
    if (!this.document.layers.has(this.active)) this.activate([...this.document.layers.keys()][0] ?? null);
    if (this.chosen && !this.mark) this.choose(null);
    this.lay(touched);
    this.after?.();
  }

  /** Lanes of all layers, mine before others'; only those of `touched` are put in rows anew. */
  lay(touched = null) {
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
    for (const lane of [...mine, ...[...this.others.values()].flat()]) lane.alone = this.single?.get(lane.who || document.annotator) ?? null;
    scene.laneMarks([...mine, ...[...this.others.values()].flat()]);
    this.panel?.show();
  }

  /** Another window has changed what was changed here: load that, do what still can be done, and offer the rest. */
  merge(error) {
    return this.load((unsaved) => this.restore(unsaved, error.message), error.message);
  }

  /** Forget what is not saved, and show what is. */
  discard() {
    return this.load(() => this.panel.tell("saved"));
  }

  /** Load what is saved, then call `after` with what was not; where that fails, everything stays as it is. */
  async load(after, why = "") {
    try {
      const data = await this.source.load();
      const { unsaved } = this.saver;
      this.saver.drop();
      this.loaded(data);
      after(unsaved);
    } catch (error) {
      this.panel.tell("refused", `${why} ${error.message}`);
    }
  }

  /** Do unsaved changes once more; those on what others have changed are offered to the user. */
  restore(unsaved, why = "It was changed in another window.") {
    const { document: whole, saver } = this;
    const { fitting, conflicting } = whole.divide(unsaved);
    if (fitting.length) whole.act(fitting.map(({ was, ...change }) => change));
    saver.conflicts = conflicting;
    saver.store();
    if (!conflicting.length) return;
    const count = conflicting.length === 1 ? "One change of yours is" : `${conflicting.length} changes of yours are`;
    const decide = (isMine) => () => {
      saver.conflicts = [];
      const possible = conflicting.filter(({ op, layer }) => op === "put_layer" || whole.layers.has(layer));
      if (isMine && possible.length) whole.act(possible.map(({ was, ...change }) => change));
      saver.store();
      this.panel.tell(saver.isSaved ? "saved" : "saving");
    };
    this.panel.tell("refused", `${why} ${count} left out. What you see now is what is saved.`, [["Use mine", decide(true)], ["Keep what is saved", decide(false)]]);
  }

  /** Begin anew with what the server has. */
  loaded(data) {
    this.document.take(data);
    this.changed(null, null);
  }

  /** Marks that one of two annotators has alone are drawn dashed, mine and those of the others beside it. */
  alone(pairs) {
    this.single = new Map(); // by annotator: ids, and with how many others
    for (const { one, other, only_one: onlyOne, only_other: onlyOther } of pairs) {
      for (const [who, ids] of [[one, onlyOne], [other, onlyOther]]) {
        const before = this.single.get(who);
        this.single.set(who, new Set(before ? ids.filter((id) => before.has(id)) : ids));
      }
    }
    this.lay(new Set());
  }

  // ------------------------------------------------------------ what is chosen

  activate(id) {
    if (this.active === id) return;
    this.active = id;
    this.pending = null;
    this.chosen = null;
    this.label = this.layer?.labels[0] ?? "";
    this.lay(new Set());
  }

  stepLayer(by) {
    const ids = [...this.document.layers.keys()];
    const at = ids.indexOf(this.active);
    if (ids.length) this.activate(ids[Math.min(ids.length - 1, Math.max(0, at + by))]);
    this.panel.say(this.layer ? `Layer ${this.layer.name}` : "");
  }

  /** Choose a mark of the active layer; `shows` brings it into the picture. */
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
    const next = at >= 0 ? at + by : by > 0 ? marks.findIndex(({ start }) => start >= here) : marks.findLastIndex(({ start }) => start < here);
    const mark = marks[Math.min(marks.length - 1, Math.max(0, next))];
    if (!mark) return;
    this.choose(mark.id, true);
    this.panel.say(this.panel.story(mark));
  }

  playMark() {
    const { mark, scene, viewer } = this;
    if (!mark) return;
    const wide = mark.end > mark.start ? 0 : AROUND_MS;
    viewer.player.play(msAt(scene, mark.start) - wide, msAt(scene, mark.end, true) + wide);
  }

  // ------------------------------------------------------------ what an annotator does

  setSnap(how) {
    this.snap = how;
    localStorage.setItem(SNAP_KEPT, how);
    this.panel.show();
  }

  /** An edge as it snaps. */
  edge(sample) {
    return snapped(this.scene, sample, this.snap);
  }

  /** A new mark of the active layer, in samples; nothing where it would have no length. */
  add(start, end) {
    const { layer } = this;
    if (!layer) return this.panel.say("Make a layer first.");
    const [from, to] = [this.edge(Math.min(start, end)), this.edge(Math.max(start, end))];
    const isPoint = layer.kind === "points";
    if (!isPoint && from === to) return undefined;
    const mark = { id: freshId(), start: from, end: isPoint ? from : to, label: this.label, note: "" };
    this.document.putMark(layer.id, mark);
    this.choose(mark.id);
    return this.panel.say(`Marked ${this.panel.story(mark)}`);
  }

  /** The chosen mark, or another one of the active layer, with something else in it. */
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

  /** Move an edge of the chosen mark by a step: a frame where edges snap to frames, else 10 ms, or 1. */
  nudge(edge, by, isFine) {
    const { mark, scene } = this;
    if (!mark) return;
    const step = this.snap === "frame" && scene.frameSamples ? scene.frameSamples : Math.round(((isFine ? 1 : 10) * scene.rateHz) / 1000);
    const at = Math.max(0, Math.min(this.document.samples, mark[edge] + by * step));
    this.change({ [edge]: at });
  }

  remove() {
    if (!this.mark) return;
    const told = this.panel.story(this.mark);
    this.document.dropMark(this.active, this.chosen);
    this.panel.say(`Removed ${told}`);
  }

  /** The label of a number key: of the chosen mark, else of those to come. */
  give(label) {
    this.label = label;
    if (this.mark) this.change({ label });
    this.panel.show();
  }

  /** A mark without a hand on the picture: of the selection, else at the playhead; a region takes two. */
  markHere() {
    const { scene, viewer, layer } = this;
    if (!layer) return this.panel.say("Make a layer first.");
    const here = sampleNear(scene, viewer.player.atMs);
    if (layer.kind === "points") return this.add(here, here);
    if (scene.selection && !this.mark) return this.add(...scene.selection.map((ms) => sampleNear(scene, ms)));
    if (this.pending === null) {
      this.choose(null);
      this.pending = here;
      return this.panel.say("It begins here. Press M again where it ends.");
    }
    const start = this.pending;
    this.pending = null;
    return this.add(start, here);
  }

  undo() {
    this.panel.say(this.document.undo() ? "Undone" : "Nothing to undo");
  }

  redo() {
    this.panel.say(this.document.redo() ? "Done again" : "Nothing to do again");
  }

  /** Somebody else's layers beside one's own, or not any more. */
  async showOther(name, isShown) {
    if (!isShown) this.others.delete(name);
    else {
      const { layers } = new Document(await this.source.other(name), () => {});
      const lanes = [...layers.values()].map((layer) => new Lane(layer, [...layer.marks.values()].sort((a, b) => a.start - b.start || a.end - b.end), name));
      this.others.set(name, lanes);
    }
    this.lay(new Set());
  }
}
