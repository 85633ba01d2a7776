// Words light up in the field itself: behind it lies the same text, unseen, of which stretches are painted.

import { places } from "./places.js";

const NAMES = ["heard", "now", "estimate", "pending", "left", "changed"];
const LONGEST_COMPARED = 20_000; // code points; in a longer text an edit of what was heard is not followed
const HANDS_OFF_MS = 2500; // after a key or a scroll the field stays where the person put it

export class Lights {
  constructor(field, behind) {
    this.field = field;
    this.behind = behind;
    this.node = behind.appendChild(document.createTextNode(""));
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
    if (this.node.data !== text) this.node.data = text;
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

  range(from, to) {
    const range = new Range();
    const { length } = this.node.data;
    range.setStart(this.node, Math.min(from, length));
    range.setEnd(this.node, Math.min(to, length));
    return range;
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
