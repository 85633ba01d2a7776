// Words light up in the field itself: behind it lies the same text, unseen, of which stretches are painted.

import { places } from "./places.js";

const NAMES = ["heard", "now", "estimate", "pending", "left", "changed"];
const PIECE = 1024; // of the text behind the field: a browser draws all of a text anew where a light in it changes
const LONGEST_COMPARED = 20_000; // code points; in a longer text an edit of what was heard is not followed
const HANDS_OFF_MS = 2500; // after a key or a scroll the field stays where the person put it

/** Where the pieces of a text begin: behind a space where there is one, so that no word is drawn in two. */
function starts(text) {
  const out = [];
  for (let from = 0; from < text.length; ) {
    out.push(from);
    const space = text.lastIndexOf(" ", from + PIECE);
    const isPair = /[\udc00-\udfff]/.test(text[from + PIECE] ?? "");
    from = space > from ? space + 1 : from + PIECE + (isPair ? 1 : 0);
  }
  return out;
}

export class Lights {
  constructor(field, behind) {
    this.field = field;
    this.behind = behind;
    this.text = "";
    this.nodes = []; // the text in pieces
    this.starts = []; // of each in it
    behind.append("\n"); // so that a last, empty line has its height here, too
    this.isAble = typeof Highlight === "function" && "highlights" in CSS;
    this.touchedMs = -Infinity;
    for (const type of ["keydown", "wheel", "pointerdown", "touchmove"]) {
      field.addEventListener(type, (e) => (this.touchedMs = e.timeStamp), { passive: true });
    }
    field.addEventListener("scroll", () => this.align());
    this.size = new ResizeObserver(() => this.align());
    this.size.observe(field);
    this.clear();
  }

  clear() {
    this.base = null;
    this.ranges = Object.fromEntries(NAMES.map((name) => [name, []]));
    this.paint();
  }

  /** An utterance begins whose text is in the field from a code point on; null where it is not there. */
  begin(base) {
    this.clear();
    this.base = base;
  }

  align() {
    this.behind.style.inlineSize = `${this.field.clientWidth}px`; // a scroll bar takes room from the words
    this.behind.scrollTop = this.field.scrollTop;
  }

  /** Light what the caption says of its words. */
  show(caption) {
    const text = this.field.value;
    if (this.text !== text) this.write(text);
    this.align();
    if (this.base === null || !this.isAble) return;
    const at = this.places(caption, text);
    const span = (token) => [at(token.start), at(token.end)];
    const token = caption.byWord[caption.now];
    const last = caption.tokens.at(-1);
    const isNow = token && !caption.isPast;
    const end = token ? at(token.end) : at(0);
    this.ranges = {
      heard: token ? [[at(0), isNow ? at(token.start) : end]] : [],
      now: isNow ? [span(token)] : [],
      estimate: isNow && caption.estimated[caption.now] ? [span(token)] : [],
      pending: last ? [[end, at(last.end)]] : [],
      left: caption.tokens.filter((one) => one.why).map(span),
      changed: caption.tokens.filter((one) => one.edited).map(span),
    };
    this.paint();
    if (isNow) this.follow();
  }

  /** Where in the field, in UTF-16 units, stands what stands at a code point of the text as sent. */
  places(caption, text) {
    const isPlain = !/[\ud800-\udbff]/.test(text);
    const before = [0]; // UTF-16 units before each code point
    if (!isPlain) for (const char of text) before.push(before.at(-1) + char.length);
    const units = (points) => (isPlain ? points : (before[points] ?? text.length));
    const moved = this.moved(caption.text, text.slice(units(this.base)));
    return (points) => Math.min(text.length, units(this.base + moved(points)));
  }

  /** Where code points of the text as sent stand in the field's own text; found once for each state of both. */
  moved(chars, own) {
    if (chars.length >= LONGEST_COMPARED) return (points) => points;
    const sent = chars.join("");
    if (this.compared?.sent !== sent || this.compared.own !== own) {
      this.compared = { sent, own, places: places([...chars], Array.from(own)) };
    }
    return this.compared.places;
  }

  paint() {
    if (!this.isAble) return;
    for (const name of NAMES) {
      const found = this.ranges[name].filter(([from, to]) => from < to);
      CSS.highlights.set(`live-${name}`, new Highlight(...found.map((span) => this.range(...span))));
    }
  }

  /** Put the same text behind the field, leaving the pieces that it has in common with the one before. */
  write(text) {
    this.text = text;
    this.starts = starts(text);
    this.starts.forEach((from, k) => {
      this.nodes[k] ??= this.behind.insertBefore(document.createTextNode(""), this.behind.lastChild);
      const piece = text.slice(from, this.starts[k + 1]);
      if (this.nodes[k].data !== piece) this.nodes[k].data = piece;
    });
    for (const node of this.nodes.splice(this.starts.length)) node.remove();
  }

  range(from, to) {
    const range = new Range();
    range.setStart(...this.place(from));
    range.setEnd(...this.place(to));
    return range;
  }

  /** The piece of text in which a place lies, and where in it. */
  place(at) {
    const k = this.starts.findLastIndex((from) => from <= at);
    if (k < 0) return [this.behind, 0];
    return [this.nodes[k], Math.min(at - this.starts[k], this.nodes[k].length)];
  }

  /** Keep the word that is heard in view, unless hands are on the field. */
  follow() {
    if (performance.now() - this.touchedMs < HANDS_OFF_MS) return;
    const [now] = this.ranges.now;
    const word = this.range(...now).getBoundingClientRect();
    const view = this.field.getBoundingClientRect();
    if (word.top < view.top || word.bottom > view.bottom) this.field.scrollTop += word.top - view.top - view.height * 0.3;
  }

  dispose() {
    this.size.disconnect();
    this.clear();
  }
}
