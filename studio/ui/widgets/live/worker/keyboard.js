// The text field as the Worker knows it: which part belongs to which utterance.

import { Typed } from "../../wire/typed.js";
import { now } from "../../wire/packet.js";

// A huge paste: what speaks for minutes goes at once, the rest in pieces that come sooner than the keyboard's idle time.
const AT_ONCE_CHARS = 3000;
const PIECE_CHARS = 400;
const PIECE_MS = 250;
const PASTED_WORDS = 4; // at once: nobody types them

export class Keyboard {
  constructor(session) {
    this.session = session;
    this.clear();
  }

  clear() {
    this.field = new Typed();
    this.base = 0; // characters that belong to earlier utterances
    this.inputMs = 0;
    this.begin();
  }

  /** The field holds a text that nobody is to say now: it was there before, or somebody else speaks it. */
  adopt(text) {
    this.field = new Typed();
    this.field.edit(0, 0, text, now());
    this.close();
  }

  /** A new utterance: the server knows nothing of it yet. */
  begin() {
    clearTimeout(this.timer);
    this.timer = null;
    this.given = 0; // characters of the present utterance that the server has
    this.isLast = false;
  }

  /** Everything typed so far has been given away; what comes next is a new text. */
  close() {
    this.base = this.field.length;
  }

  edit({ at, remove, insert, tMs }) {
    const { session } = this;
    this.field.edit(at, remove, insert, tMs);
    this.inputMs = now();
    const grown = Array.from(insert).length - remove;
    if (this.isOfEnded(at, remove)) {
      this.base += grown;
      return this.push(at - session.current.base, remove, insert, tMs);
    }
    if (at + remove < this.base) {
      this.base += grown;
      if (at + remove <= (session.current?.base ?? -1)) session.current.base += grown;
      return session.post({ type: "note", code: "already_said" });
    }
    const where = Math.max(0, at - this.base);
    const gone = remove - Math.max(0, this.base - at);
    this.base = Math.min(this.base, at);
    if (session.phase === "open" && session.mode === "keyboard") return this.push(where, gone, insert, tMs);
    const open = () => this.open(tMs);
    session.endsNext = false; // there is more of it
    if (session.phase === "idle") return open();
    // What is being said otherwise gives way; the end of an earlier text is heard first.
    if (session.mode !== "keyboard" || session.phase === "replay") session.stop();
    if (session.phase === "idle") return open();
    session.afterwards = open;
    return undefined;
  }

  /** Whether an edit is inside a text that is complete and still being said: what was not heard of it follows. */
  isOfEnded(at, remove) {
    const { phase, mode, current: u } = this.session;
    if (phase !== "ending" || mode !== "keyboard" || u.ended) return false;
    const isAll = at === u.base && at + remove === this.base;
    return !isAll && at >= u.base && at < this.base && at + remove <= this.base;
  }

  /** Begin an utterance with all that was typed and not said yet; end it where its end was asked for meanwhile. */
  open(tMs = now()) {
    const { session, base } = this;
    const text = this.field.text(base);
    const isComplete = session.endsNext;
    if (!text.trim()) return session.settle();
    const u = session.open("keyboard", "keyboard", () => this.open(), base);
    if (!u) return undefined;
    this.begin();
    this.push(0, 0, text, tMs);
    if (isComplete) session.finish();
    return undefined;
  }

  /** The server had no place for an utterance: its text, and whether it was complete, wait for the next try. */
  reclaim(utterance) {
    this.base = utterance.base;
    this.session.endsNext = utterance.ending === true;
  }

  /** Pass an edit of the present utterance's text on: at once where the server knows the text, else by and by. */
  push(at, remove, insert, tMs) {
    const u = this.session.current;
    u.typed.edit(at, remove, insert, tMs);
    u.isPasted ||= insert.trim().split(/\s+/).length >= PASTED_WORDS;
    if (at < this.given) {
      const known = Math.min(remove, this.given - at);
      u.sent(tMs, insert || " ");
      this.session.say({ type: "edit", at, remove: known, insert });
      this.given += Array.from(insert).length - known;
    }
    if (!this.timer) this.give(AT_ONCE_CHARS, tMs);
  }

  /** Give the next characters; a long text goes on at a steady pace, which no voice can outrun. */
  give(count, tMs = now()) {
    const { session } = this;
    const u = session.current;
    this.timer = null;
    if (!u || session.phase === "stopping" || u.ended) return;
    const piece = u.typed.text(this.given, this.given + count);
    if (piece) {
      u.sent(tMs, piece);
      session.say({ type: "edit", at: this.given, remove: 0, insert: piece });
      this.given = Math.min(u.typed.length, this.given + count);
    }
    if (this.given < u.typed.length) this.timer = setTimeout(() => this.give(PIECE_CHARS), PIECE_MS);
    else if (this.isLast) session.say({ type: "end" });
    this.isLast &&= this.timer !== null;
  }

  /** The text is complete: end the utterance when all of it has been given. */
  end() {
    this.isLast = this.timer !== null;
    if (!this.isLast) this.session.say({ type: "end" });
  }
}
