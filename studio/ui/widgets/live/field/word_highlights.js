// Highlights spoken words in the field: ranges of an invisible copy of the text behind it are painted.

import { positionMap } from "./position_map.js";

const NAMES = ["heard", "now", "estimate", "pending", "left", "changed"];
const PIECE = 1024; // length of a text node: a browser repaints a whole node when a highlight in it changes
const MAX_COMPARED = 20_000; // code points; in a longer text, edits of spoken text are not followed
const FOLLOW_AFTER_MS = 2500; // without automatic scrolling, after a key press or scroll by the user

/** Start positions of a text's pieces: after a space where possible, so that no word is split. */
export function pieceStarts(text) {
  const out = [];
  for (let from = 0; from < text.length; ) {
    out.push(from);
    const space = text.lastIndexOf(" ", from + PIECE);
    const isPair = /[\udc00-\udfff]/.test(text[from + PIECE] ?? "");
    from = space > from ? space + 1 : from + PIECE + (isPair ? 1 : 0);
  }
  return out;
}

/** The parts of a span outside others, which are in order. */
export function outside([from, to], others) {
  const out = [];
  let at = from;
  for (const [start, end] of others) {
    if (end <= at || start >= to) continue;
    out.push([at, start]);
    at = end;
  }
  return [...out, [at, to]].filter(([start, end]) => start < end);
}

export class WordHighlights {
  constructor(field, behind) {
    this.field = field;
    this.behind = behind;
    this.text = "";
    this.nodes = []; // text nodes of the pieces
    this.starts = []; // position of each piece
    behind.append("\n"); // gives a last, empty line its height
    this.isSupported = typeof Highlight === "function" && "highlights" in CSS;
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

  /** Begin an utterance whose text starts at code point `base` of the field; null: it is not in the field. */
  begin(base) {
    this.clear();
    this.base = base;
  }

  align() {
    this.behind.style.inlineSize = `${this.field.clientWidth}px`; // a scroll bar reduces the width of the text
    this.behind.scrollTop = this.field.scrollTop;
  }

  /** Highlight the caption's words in the field. */
  show(caption) {
    const text = this.field.value;
    if (this.text !== text) this.write(text);
    this.align();
    if (this.base === null || !this.isSupported) return;
    const at = this.unitMap(caption, text);
    const span = (token) => [at(token.start), at(token.end)];
    const token = caption.byWord[caption.now];
    const last = caption.tokens.at(-1);
    const isNow = token && !caption.isPast;
    const end = token ? at(token.end) : at(0);
    const changed = caption.tokens.filter((one) => one.edited).map(span); // words that the speech does not have
    this.ranges = {
      heard: token ? outside([at(0), isNow ? at(token.start) : end], changed) : [],
      now: isNow ? [span(token)] : [],
      estimate: isNow && caption.estimated[caption.now] ? [span(token)] : [],
      pending: last ? [[end, at(last.end)]] : [],
      left: caption.tokens.filter((one) => one.why).map(span),
      changed,
    };
    this.paint();
    if (isNow) this.follow();
  }

  /** A function from code points of the text as sent to UTF-16 units of the field. */
  unitMap(caption, text) {
    const isPlain = !/[\ud800-\udbff]/.test(text);
    const before = [0]; // UTF-16 units before each code point
    if (!isPlain) for (const char of text) before.push(before.at(-1) + char.length);
    const units = (points) => (isPlain ? points : (before[points] ?? text.length));
    const position = this.fieldMap(caption.text, text.slice(units(this.base)));
    return (points) => Math.min(text.length, units(this.base + position(points)));
  }

  /** A function from code points of the text as sent to those of the field's text; cached. */
  fieldMap(chars, own) {
    if (chars.length >= MAX_COMPARED) return (points) => points;
    const sent = chars.join("");
    if (this.compared?.sent !== sent || this.compared.own !== own) {
      this.compared = { sent, own, map: positionMap([...chars], Array.from(own)) };
    }
    return this.compared.map;
  }

  paint() {
    if (!this.isSupported) return;
    for (const name of NAMES) {
      const spans = this.ranges[name].filter(([from, to]) => from < to);
      CSS.highlights.set(`live-${name}`, new Highlight(...spans.map(([from, to]) => this.range(from, to))));
    }
  }

  /** Update the copy of the text, changing only pieces that differ. */
  write(text) {
    this.text = text;
    this.starts = pieceStarts(text);
    this.starts.forEach((from, k) => {
      this.nodes[k] ??= this.behind.insertBefore(document.createTextNode(""), this.behind.lastChild);
      const piece = text.slice(from, this.starts[k + 1]);
      if (this.nodes[k].data !== piece) this.nodes[k].data = piece;
    });
    for (const node of this.nodes.splice(this.starts.length)) node.remove();
  }

  range(from, to) {
    const range = new Range();
    range.setStart(this.pieceAt(from).node, this.pieceAt(from).offset);
    range.setEnd(this.pieceAt(to).node, this.pieceAt(to).offset);
    return range;
  }

  /** The text node that contains a position, and the offset in it. */
  pieceAt(at) {
    const k = this.starts.findLastIndex((from) => from <= at);
    if (k < 0) return { node: this.behind, offset: 0 };
    return { node: this.nodes[k], offset: Math.min(at - this.starts[k], this.nodes[k].length) };
  }

  /** Scroll the current word into view, unless the user has just used the field. */
  follow() {
    if (performance.now() - this.touchedMs < FOLLOW_AFTER_MS) return;
    const [from, to] = this.ranges.now[0];
    const word = this.range(from, to).getBoundingClientRect();
    const view = this.field.getBoundingClientRect();
    if (word.top < view.top || word.bottom > view.bottom)
      this.field.scrollTop += word.top - view.top - view.height * 0.3;
  }

  dispose() {
    this.size.disconnect();
    this.clear();
  }
}
