// What the Worker tells the page, in batches, so that a hundred thousand words do not become as many tasks.

const BATCH_MS = 12;

export class Outbox {
  constructor(post) {
    this.post = post;
    this.batch = [];
    this.timer = null;
  }

  /** Something that may wait a moment. */
  add(message) {
    this.batch.push(message);
    this.timer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = null;
    if (this.batch.length) this.post({ type: "batch", list: this.batch.splice(0) });
  }
}
