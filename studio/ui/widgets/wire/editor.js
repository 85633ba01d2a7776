// Edits of the text field, in code points, with the time of the key press.

const KEY_TO_INPUT_MS = 5000; // an input event up to this late belongs to its key press: the page may have been busy

/** The edit from `before` to `after`: {at, remove, insert} in code points; null if they are equal. */
export function difference(before, after) {
  if (before === after) return null;
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before.charCodeAt(head) === after.charCodeAt(head)) head++;
  if (head > 0 && isHigh(before.charCodeAt(head - 1))) head--;
  let tail = 0;
  while (
    tail < shorter - head &&
    before.charCodeAt(before.length - 1 - tail) === after.charCodeAt(after.length - 1 - tail)
  )
    tail++;
  if (tail > 0 && isLow(before.charCodeAt(before.length - tail))) tail--;
  return {
    at: codePoints(before, 0, head),
    remove: codePoints(before, head, before.length - tail),
    insert: after.slice(head, after.length - tail),
  };
}

const isHigh = (unit) => unit >= 0xd800 && unit < 0xdc00;
const isLow = (unit) => unit >= 0xdc00 && unit < 0xe000;

function codePoints(text, from, to) {
  let count = to - from;
  for (let k = from; k < to - 1; k++) if (isHigh(text.charCodeAt(k)) && isLow(text.charCodeAt(k + 1))) count--;
  return count;
}

export class Editor {
  /** `on`: edit({at, remove, insert, tMs}), finish(), adopt(text), a text that is not an edit. */
  constructor(field, on) {
    this.field = field;
    this.sent = this.cleared = ""; // cleared: what reset() removed, until the next edit
    this.on = on;
    this.keyMs = 0;
    for (const type of ["keydown", "paste", "drop", "beforeinput"]) {
      field.addEventListener(type, (e) => (this.keyMs ||= e.timeStamp), true);
    }
    field.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) {
        e.preventDefault();
        this.on.finish();
      }
    });
    field.addEventListener("input", (e) => {
      const isRestored = this.cleared && this.field.value === this.cleared; // by the browser's undo
      if (e.inputType === "historyUndo" && isRestored) this.adopt(this.cleared);
      else if (!e.isComposing) this.send(e.timeStamp);
    });
    field.addEventListener("compositionend", (e) => this.send(e.timeStamp));
    field.addEventListener("keyup", () => (this.keyMs = 0));
  }

  send(timeStamp) {
    const value = this.field.value;
    const change = difference(this.sent, value);
    const key = this.keyMs > 0 && timeStamp - this.keyMs < KEY_TO_INPUT_MS ? this.keyMs : timeStamp;
    this.keyMs = 0;
    if (!change) return;
    this.sent = value;
    this.cleared = "";
    this.on.edit({ ...change, tMs: performance.timeOrigin + key });
  }

  /** Set the text as if it were pasted. */
  set(text) {
    this.field.value = text;
    this.keyMs = 0;
    this.send(performance.now());
  }

  /** Send the whole text again as one edit. */
  resend() {
    this.sent = "";
    this.keyMs = 0;
    this.send(performance.now());
  }

  /** Append the text of a key press. */
  append(text) {
    this.field.value += text;
    this.field.scrollTop = this.field.scrollHeight;
    this.keyMs = 0;
    this.send(performance.now());
  }

  /** Set a text that the Worker already has. */
  show(text) {
    this.field.value = this.sent = text;
    this.field.scrollTop = this.field.scrollHeight;
  }

  /** Set a text that is not to be spoken: of the page's address, or what reset() removed. */
  adopt(text) {
    this.cleared = "";
    this.show(text);
    this.field.setSelectionRange(this.field.value.length, this.field.value.length); // undo selects what it restores
    this.on.adopt(this.field.value);
  }

  /** Empty the field without reporting an edit; the browser's undo brings the text back. */
  reset() {
    this.sent = "";
    if (!this.field.value) return;
    this.cleared = this.field.value;
    const { ownerDocument } = this.field;
    const { activeElement } = ownerDocument;
    this.field.select();
    if (!ownerDocument.execCommand("delete")) this.field.value = ""; // the only command that keeps the undo history
    activeElement?.focus({ preventScroll: true });
  }
}
