// Autosave: changes go to the server in the order in which they were made, one edit at a time, until it has them.

import { freshId } from "./document.js";

const MOST_CHANGES = 200;
const MOST_CHARS = 12000; // of one edit in JSON: the server takes 64 KiB, and a character may be four bytes
const WAIT_MS = 250; // for more of the same
const AGAIN_MS = [1000, 2000, 5000, 10000];
const LOST = new Set([0, 429, 500, 502, 503, 504]); // what may go well a moment later

export class Saver {
  /**
   * `send(edit)` answers `{ revision }` or throws what has a `status` and a `message`; `tell(state, why)` hears saving,
   * saved, waiting (it is tried again) or refused; `reload(why)` is called where the server has said no for good.
   */
  constructor(document, send, tell, reload) {
    Object.assign(this, { document, send, tell, reload });
    this.waiting = [];
    this.edit = null; // under way
    this.tries = 0;
    this.isClosed = false;
  }

  get isSaved() {
    return !this.edit && !this.waiting.length;
  }

  add(changes) {
    this.waiting.push(...changes);
    if (this.tries === 0) this.tell("saving");
    if (!this.edit) this.later(WAIT_MS);
  }

  /** Leave: what waits is sent at once, and nothing after it is told. */
  close() {
    this.isClosed = true;
    if (!this.isSaved) this.later(0);
  }

  /** Forget what waits: the document was loaded anew. */
  drop() {
    clearTimeout(this.timer);
    Object.assign(this, { waiting: [], edit: null, tries: 0 });
  }

  later(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.go(), ms);
  }

  async go() {
    this.edit ??= this.next();
    const { edit } = this;
    if (!edit || this.isSending) return;
    this.isSending = true;
    try {
      const { revision } = await this.send(edit);
      if (this.edit !== edit) return;
      this.document.acknowledged(edit.changes, revision);
      this.edit = null;
      this.tries = 0;
      if (!this.isClosed) this.tell(this.isSaved ? "saved" : "saving");
      if (this.waiting.length) this.later(0);
    } catch (error) {
      if (this.edit === edit) this.failed(error);
    } finally {
      this.isSending = false;
      if (this.edit && this.edit !== edit) this.later(0);
    }
  }

  failed(error) {
    if (LOST.has(error.status)) {
      const ms = AGAIN_MS[Math.min(this.tries++, AGAIN_MS.length - 1)];
      if (!this.isClosed) this.tell("waiting", error.message);
      return this.later(ms);
    }
    if (!this.isClosed) return this.reload(error);
    return this.drop();
  }

  /** The next edit: as much as one takes, and nothing twice, since its version is known only afterwards. */
  next() {
    const changes = [];
    const touched = new Set();
    let chars = 0;
    while (this.waiting.length && changes.length < MOST_CHANGES) {
      const [change] = this.waiting;
      const name = change.mark === undefined ? change.layer ?? change.op : `${change.layer}/${change.mark}`;
      const isThere = touched.has(name) || (change.op === "drop_layer" && [...touched].some((one) => one.startsWith(`${name}/`)));
      const seen = this.document.seen(change);
      chars += JSON.stringify(seen).length;
      if (isThere || touched.has(`gone ${change.layer}`) || (changes.length && chars > MOST_CHARS)) break;
      touched.add(name);
      if (change.op === "drop_layer") touched.add(`gone ${change.layer}`);
      changes.push(seen);
      this.waiting.shift();
    }
    return changes.length ? { edit: freshId(), changes } : null;
  }
}
