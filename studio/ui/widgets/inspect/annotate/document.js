// One annotator's annotation of one clip: layers of marks in samples, with undo and redo.

const BYTES = 8; // of random data in an id

/** A random unique id. */
export function freshId() {
  return [...crypto.getRandomValues(new Uint8Array(BYTES))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Document {
  /** `data` is the server's; `changed(layerIds, changes)` is called after each change, `changes` null after a reload. */
  constructor(data, changed) {
    this.changed = changed;
    this.load(data);
  }

  /** Replace the content with the server's `data`. */
  load(data) {
    this.annotator = data.annotator;
    this.samples = data.samples;
    this.isDone = data.is_done;
    this.layers = new Map();
    this.versions = new Map(); // versions on the server: layers by id, marks by layer/id
    this.past = [];
    this.future = [];
    for (const { id, name, kind, labels, version, marks } of data.layers) {
      this.layers.set(id, { id, name, kind, labels, marks: new Map() });
      this.versions.set(id, version);
      for (const [mark, at, start, end, label, note] of marks) {
        this.layers.get(id).marks.set(mark, { id: mark, start, end, label, note });
        this.versions.set(`${id}/${mark}`, at);
      }
    }
  }

  get marks() {
    return [...this.layers.values()].reduce((sum, layer) => sum + layer.marks.size, 0);
  }

  /** Marks of a layer in time order. */
  sorted(layer) {
    return [...layer.marks.values()].sort(
      (one, other) => one.start - other.start || one.end - other.end || (one.id < other.id ? -1 : 1),
    );
  }

  // ------------------------------------------------------------ edits

  putMark(layerId, mark) {
    this.act([putMark(layerId, mark)]);
  }

  dropMark(layerId, id) {
    this.act([{ op: "drop_mark", layer: layerId, mark: id }]);
  }

  putLayer({ id, name, kind, labels }) {
    this.act([{ op: "put_layer", layer: id, name, kind, labels }]);
  }

  dropLayer(id) {
    this.act([{ op: "drop_layer", layer: id }]);
  }

  finish(isDone) {
    this.act([{ op: "done", is_done: isDone }]);
  }

  act(changes) {
    const back = changes.flatMap((change) => this.inverse(change)).reverse();
    this.past.push({ changes, back });
    this.future = [];
    this.apply(changes);
  }

  undo() {
    return this.step(this.past, this.future, "back");
  }

  redo() {
    return this.step(this.future, this.past, "changes");
  }

  step(from, to, part) {
    const action = from.pop();
    if (!action) return false;
    to.push(action);
    this.apply(action[part]);
    return true;
  }

  /** Changes that undo `change`, in reverse order, since `act` reverses the whole list. */
  inverse(change) {
    const layer = this.layers.get(change.layer);
    if (change.op === "done") return [{ op: "done", is_done: this.isDone }];
    if (change.op === "put_layer")
      return [
        layer
          ? { ...change, name: layer.name, kind: layer.kind, labels: layer.labels }
          : { op: "drop_layer", layer: change.layer },
      ];
    if (change.op === "drop_layer") {
      const marks = this.sorted(layer).map((mark) => putMark(layer.id, mark));
      return [...marks, { op: "put_layer", layer: layer.id, name: layer.name, kind: layer.kind, labels: layer.labels }];
    }
    const before = layer.marks.get(change.mark);
    return [before ? putMark(layer.id, before) : { op: "drop_mark", layer: layer.id, mark: change.mark }];
  }

  apply(changes) {
    const touched = new Set();
    for (const change of changes) {
      const { op, layer: id } = change;
      if (op === "done") this.isDone = change.is_done;
      else touched.add(id);
      if (op === "put_layer") {
        const marks = this.layers.get(id)?.marks ?? new Map();
        this.layers.set(id, { id, name: change.name, kind: change.kind, labels: change.labels, marks });
      } else if (op === "drop_layer") this.layers.delete(id);
      else if (op === "put_mark") {
        const { mark, start, end, label, note } = change;
        this.layers.get(id).marks.set(mark, { id: mark, start, end, label, note });
      } else if (op === "drop_mark") this.layers.get(id).marks.delete(change.mark);
    }
    this.changed(touched, changes);
  }

  // ------------------------------------------------------------ versions

  /** A change as sent to the server, with the version it is based on. */
  withVersion(change) {
    const { op, layer, mark } = change;
    if (op === "done") return change;
    if (op !== "drop_layer")
      return { ...change, was: this.versions.get(mark === undefined ? layer : `${layer}/${mark}`) ?? 0 };
    let was = this.versions.get(layer) ?? 0;
    for (const [name, version] of this.versions) if (name.startsWith(`${layer}/`)) was = Math.max(was, version);
    return { ...change, was };
  }

  /**
   * Divide unsaved changes (with their base versions) into those that still apply and those that conflict with newer
   * versions. Changes that the document contains already are dropped.
   */
  divide(unsaved) {
    const fitting = [];
    const conflicting = [];
    const layers = new Set(this.layers.keys());
    const touched = new Set(); // by earlier changes
    const stuck = new Set();
    for (const change of unsaved) {
      const { op, layer, mark } = change;
      const name = mark === undefined ? (layer ?? op) : `${layer}/${mark}`;
      if (!touched.has(name) && this.holds(change)) continue;
      touched.add(name);
      const isThere = op === "done" || op === "put_layer" || layers.has(layer);
      if (!isThere || stuck.has(layer) || stuck.has(name) || this.withVersion(change).was !== change.was) {
        stuck.add(name);
        conflicting.push(change);
      } else {
        if (op === "put_layer") layers.add(layer);
        if (op === "drop_layer") layers.delete(layer);
        fitting.push(change);
      }
    }
    return { fitting, conflicting };
  }

  /** Whether the document already contains a change. */
  holds({ op, layer: id, mark, was, ...fields }) {
    const layer = this.layers.get(id);
    if (op === "done") return this.isDone === fields.is_done;
    if (op === "drop_layer") return !layer;
    if (op === "drop_mark") return !layer?.marks.has(mark);
    const current = op === "put_layer" ? layer : layer?.marks.get(mark);
    return (
      !!current && Object.keys(fields).every((name) => JSON.stringify(current[name]) === JSON.stringify(fields[name]))
    );
  }

  /** Record the version of changes that the server has saved. */
  acknowledged(changes, revision) {
    for (const { op, layer, mark } of changes) {
      if (op === "put_layer") this.versions.set(layer, revision);
      else if (op === "put_mark") this.versions.set(`${layer}/${mark}`, revision);
      else if (op === "drop_mark") this.versions.delete(`${layer}/${mark}`);
      else if (op === "drop_layer") {
        for (const name of [...this.versions.keys()])
          if (name === layer || name.startsWith(`${layer}/`)) this.versions.delete(name);
      }
    }
  }
}

const putMark = (layer, { id, start, end, label, note }) => ({
  op: "put_mark",
  layer,
  mark: id,
  start,
  end,
  label,
  note,
});
