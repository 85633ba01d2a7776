// The text field as the Worker knows it: which part belongs to which utterance.

import { Typed } from "./typed.js";
import { now } from "./wire.js";

const PIECE_CHARS = 16000; // a huge paste goes in parts

export class Keyboard {
  constructor(session) {
    this.session = session;
    this.clear();
  }

  clear() {
    this.field = new Typed();
    this.base = 0; // characters that belong to earlier utterances
    this.inputMs = 0;
  }

  /** Everything typed so far has been given away; what comes next is a new text. */
  close() {
    this.base = this.field.length;
  }

  edit({ at, remove, insert, tMs }) {
    const { session } = this;
    this.field.edit(at, remove, insert, tMs);
    this.inputMs = now();
    if (at + remove < this.base) {
      this.base += Array.from(insert).length - remove;
      return session.post({ type: "note", code: "already_said" });
    }
    const where = Math.max(0, at - this.base);
    const gone = remove - Math.max(0, this.base - at);
    this.base = Math.min(this.base, at);
    if (session.phase === "open" && session.mode === "keyboard") return this.push(where, gone, insert, tMs);
    const open = () => this.open(tMs);
    if (session.phase === "idle") return open();
    // What is being said otherwise gives way; the end of an earlier text is heard first.
    if (session.mode !== "keyboard" || session.phase === "replay") session.stop();
    if (session.phase === "idle") return open();
    session.afterwards = open;
    return undefined;
  }

  /** Begin an utterance with all that was typed and not said yet. */
  open(tMs = now()) {
    const text = this.field.text(this.base);
    if (!text.trim()) return this.session.settle();
    if (this.session.open("keyboard", "keyboard", () => this.open())) this.push(0, 0, text, tMs);
    return undefined;
  }

  push(at, remove, insert, tMs) {
    const u = this.session.current;
    u.sent(tMs, insert || " ");
    u.typed.edit(at, remove, insert, tMs);
    const chars = insert.length > PIECE_CHARS ? Array.from(insert) : null;
    if (!chars) return this.session.say({ type: "edit", at, remove, insert });
    for (let k = 0; k < chars.length; k += PIECE_CHARS) {
      this.session.say({ type: "edit", at: at + k, remove: k ? 0 : remove, insert: chars.slice(k, k + PIECE_CHARS).join("") });
    }
    return undefined;
  }
}
