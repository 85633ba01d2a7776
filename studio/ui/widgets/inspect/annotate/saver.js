// Autosave: sends changes to the server in order, one edit at a time, with retries. Unsaved changes are also stored in
// the browser, so that a reload or a crash of the page loses none.

import { freshId } from "./document.js";

const MOST_CHANGES = 200;
const MOST_CHARS = 12000; // per edit in JSON: the server accepts 64 KiB, and a character may take four bytes
const WAIT_MS = 250; // to batch changes
const RETRY_MS = [1000, 2000, 5000, 10000];
const MISSING = 404; // retried: the library may be restored or rebuilt
const CHANGED = 409;
const MOST_STORED_CHARS = 1_000_000;

export class Saver {
  /**
   * `send(edit)` returns `{ revision }` or throws an error with `status` and `message`; `report(state, why)` gets saving,
   * saved, waiting (retrying) or refused (the user retries or discards); `changed(error)` reports a conflict with another
   * window; `lost(error)` a failure after closing; `key` is the localStorage key.
   */
  constructor(document, send, report, changed, key) {
    this.document = document;
    this.send = send;
    this.report = report;
    this.changed = changed;
    this.key = key;
    this.waiting = [];
    this.edit = null; // in flight
    this.tries = 0;
    this.conflicts = []; // changes that conflict with another window; the user decides
    this.isRefused = false; // by the server; nothing is sent until `retry`
    this.isClosed = false;
    this.lost = (_error) => {};
  }

  /** All unacknowledged changes with their base versions. */
  get unsaved() {
    return [
      ...(this.edit?.changes ?? []),
      ...this.waiting.map((change) => this.document.withVersion(change)),
      ...this.conflicts,
    ];
  }

  /** Update the unsaved changes in localStorage. */
  store() {
    try {
      const { unsaved } = this;
      const text = JSON.stringify(unsaved);
      if (!unsaved.length) localStorage.removeItem(this.key);
      else if (text.length <= MOST_STORED_CHARS) localStorage.setItem(this.key, text);
    } catch {
      // storage is missing or full; the page still holds the changes
    }
  }

  /** Unsaved changes of an earlier page. */
  stored() {
    try {
      return JSON.parse(localStorage.getItem(this.key)) ?? [];
    } catch {
      return [];
    }
  }

  get isSaved() {
    return !this.edit && !this.waiting.length;
  }

  add(changes) {
    this.waiting.push(...changes);
    const isSame = (one) => (other) => one.op !== "done" && one.layer === other.layer && one.mark === other.mark;
    this.conflicts = this.conflicts.filter((one) => !changes.some(isSame(one))); // the user has decided
    this.store();
    if (this.isRefused) return;
    if (this.tries === 0) this.report("saving");
    if (!this.edit) this.later(WAIT_MS);
  }

  /** Retry after a refusal. */
  retry() {
    this.isRefused = false;
    this.tries = 0;
    this.report("saving");
    this.later(0);
  }

  /** Close: send pending changes at once, and report no further states. */
  close() {
    this.isClosed = true;
    if (!this.isSaved) this.later(0);
  }

  /** Drop pending changes after a reload of the document. */
  drop() {
    clearTimeout(this.timer);
    this.waiting = [];
    this.edit = null;
    this.tries = 0;
    this.conflicts = [];
    this.isRefused = false;
    this.store();
  }

  later(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.go(), ms);
  }

  async go() {
    this.edit ??= this.next();
    const { edit } = this;
    if (!edit || this.isSending || this.isRefused) return;
    this.isSending = true;
    try {
      const { revision } = await this.send(edit);
      if (this.edit !== edit) return;
      this.document.acknowledged(edit.changes, revision);
      this.edit = null;
      this.tries = 0;
      this.store();
      if (!this.isClosed) this.report(this.isSaved ? "saved" : "saving");
      if (this.waiting.length) this.later(0);
    } catch (error) {
      if (this.edit === edit) this.failed(error);
    } finally {
      this.isSending = false;
      if (this.edit && this.edit !== edit) this.later(0);
    }
  }

  failed(error) {
    if (this.isClosed) this.lost(error);
    if (error.isTemporary || error.status === MISSING) {
      const ms = RETRY_MS[Math.min(this.tries++, RETRY_MS.length - 1)];
      if (!this.isClosed) this.report("waiting", error.message);
      return this.later(ms);
    }
    this.isRefused = true;
    if (this.isClosed) return undefined; // remains in localStorage
    return error.status === CHANGED ? this.changed(error) : this.report("refused", error.message);
  }

  /** The next edit, up to the size limits; each object at most once, since its new version is not known yet. */
  next() {
    const changes = [];
    const touched = new Set();
    let chars = 0;
    while (this.waiting.length && changes.length < MOST_CHANGES) {
      const [change] = this.waiting;
      const name = change.mark === undefined ? (change.layer ?? change.op) : `${change.layer}/${change.mark}`;
      const isThere =
        touched.has(name) || (change.op === "drop_layer" && [...touched].some((one) => one.startsWith(`${name}/`)));
      const versioned = this.document.withVersion(change);
      chars += JSON.stringify(versioned).length;
      if (isThere || touched.has(`gone ${change.layer}`) || (changes.length && chars > MOST_CHARS)) break;
      touched.add(name);
      if (change.op === "drop_layer") touched.add(`gone ${change.layer}`);
      changes.push(versioned);
      this.waiting.shift();
    }
    return changes.length ? { edit: freshId(), changes } : null;
  }
}
