// The Worker's copy of the text field: which part belongs to which utterance.

import { now } from "../../wire/packet.js";
import { TimedText } from "../../wire/timed_text.js";

// A large paste: minutes of speech are sent at once, the rest in pieces, at intervals below the keyboard's idle time.
const AT_ONCE_CHARS = 3000;
const PIECE_CHARS = 400;
const PIECE_MS = 250;
const PASTED_WORDS = 4; // words in one edit that count as pasted

export class Keyboard {
  constructor(session) {
    this.session = session;
    this.clear();
  }

  clear() {
    this.field = new TimedText();
    this.base = 0; // characters of earlier utterances
    this.inputMs = 0;
    this.begin();
  }

  /** Set the field to a text that is not to be spoken from here. */
  adopt(text) {
    this.field = new TimedText();
    this.field.edit(0, 0, text, now());
    this.close();
  }

  /** Begin a new utterance. */
  begin() {
    clearTimeout(this.timer);
    this.timer = null;
    this.sentChars = 0; // characters of the current utterance sent to the server
    this.isLast = false;
  }

  /** Everything typed so far belongs to an utterance; later text begins a new one. */
  close() {
    this.base = this.field.length;
  }

  edit({ at, remove, insert, tMs }) {
    const { session } = this;
    this.field.edit(at, remove, insert, tMs);
    this.inputMs = now();
    const grown = Array.from(insert).length - remove;
    if (this.isInEnding(at, remove)) {
      this.base += grown;
      return this.push(at - session.current.base, remove, insert, tMs);
    }
    if (at + remove < this.base) {
      this.base += grown;
      if (at + remove <= (session.current?.base ?? -1)) session.current.base += grown;
      return session.post({ type: "note", code: "already_said" });
    }
    const where = Math.max(0, at - this.base);
    const removed = remove - Math.max(0, this.base - at);
    this.base = Math.min(this.base, at);
    if (session.phase === "open" && session.mode === "keyboard") return this.push(where, removed, insert, tMs);
    const open = () => this.open(tMs);
    session.endsNext = false; // the text goes on
    if (session.phase === "idle") return open();
    // Speech from other sources stops; an earlier typed text plays to its end first.
    if (session.mode !== "keyboard" || session.phase === "replay") session.stop();
    if (session.phase === "idle") return open();
    session.nextAction = open;
    return undefined;
  }

  /** Whether an edit is inside a complete text that is still being spoken; its unplayed part can follow. */
  isInEnding(at, remove) {
    const { phase, mode, current: u } = this.session;
    if (phase !== "ending" || mode !== "keyboard" || u.ended) return false;
    const isWhole = at === u.base && at + remove === this.base;
    return !isWhole && at >= u.base && at < this.base && at + remove <= this.base;
  }

  /** Begin an utterance with all unspoken text; end it if Finish was pressed meanwhile. */
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

  /** Take back the text of an utterance that was not admitted, for the next attempt. */
  reclaim(utterance) {
    this.base = utterance.base;
    this.session.endsNext = utterance.ending === true;
  }

  /** Send an edit of the current utterance: at once where its text was already sent, else piece by piece. */
  push(at, remove, insert, tMs) {
    const u = this.session.current;
    u.typed.edit(at, remove, insert, tMs);
    u.isPasted ||= insert.trim().split(/\s+/).length >= PASTED_WORDS;
    if (at < this.sentChars) {
      const known = Math.min(remove, this.sentChars - at);
      u.noteSent(tMs, insert || " ");
      this.session.send({ type: "edit", at, remove: known, insert });
      this.sentChars += Array.from(insert).length - known;
    }
    if (!this.timer) this.sendNext(AT_ONCE_CHARS, tMs);
  }

  /** Send the next characters; a long text follows at a constant rate, faster than any voice speaks. */
  sendNext(count, tMs = now()) {
    const { session } = this;
    const u = session.current;
    this.timer = null;
    if (!u || session.phase === "stopping" || u.ended) return;
    const piece = u.typed.text(this.sentChars, this.sentChars + count);
    if (piece) {
      u.noteSent(tMs, piece);
      session.send({ type: "edit", at: this.sentChars, remove: 0, insert: piece });
      this.sentChars = Math.min(u.typed.length, this.sentChars + count);
    }
    if (this.sentChars < u.typed.length) this.timer = setTimeout(() => this.sendNext(PIECE_CHARS), PIECE_MS);
    else if (this.isLast) session.send({ type: "end" });
    this.isLast &&= this.timer !== null;
  }

  /** The text is complete: end the utterance when all of it has been sent. */
  end() {
    this.isLast = this.timer !== null;
    if (!this.isLast) this.session.send({ type: "end" });
  }
}
