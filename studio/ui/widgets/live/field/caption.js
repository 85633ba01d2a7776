// The caption: words light up as they are played. Only words near the playback position are in the DOM.

import { t } from "../../page/translate.js";

const AHEAD = 160; // words drawn ahead of the current one
const BEHIND = 400; // and behind it
const TAIL_CHARS = 240; // of uncommitted text
const ANNOUNCE_EVERY_MS = 1800; // interval of screen reader announcements

export class Caption {
  /** `reasons`: the English sentence of each code of an `unsupported` event. */
  constructor(root, reasons = {}) {
    this.reasons = reasons;
    this.line = root.querySelector(".words");
    this.box = root.querySelector(".caption");
    this.reader = root.querySelector(".heard");
    this.leftOut = root.querySelector(".leftout");
    this.onLit = null;
    this.isAnnounced = false; // to screen readers; off by default, since they may also speak what is typed
    this.clear();
  }

  /** Show or hide the caption; words that are in the field light up there instead. */
  setVisible(isVisible) {
    this.box.hidden = !isVisible;
  }

  /** Whether screen readers announce spoken words. */
  setAnnounced(isOn) {
    this.isAnnounced = isOn;
    if (isOn) this.reader.setAttribute("aria-live", "polite");
    else this.reader.removeAttribute("aria-live");
  }

  clear() {
    this.isNew = true; // changed since the highlights in the field were updated
    this.text = []; // as sent, in code points
    this.tokens = []; // {start, end, words: [i], why, edited, node}
    this.byWord = []; // word i -> its token
    this.starts = []; // word i -> sample
    this.estimated = []; // word i -> whether its start is an estimate
    this.ends = [];
    this.spellings = [];
    this.first = this.next = 0; // drawn tokens are [first, next)
    this.tail = document.createElement("span");
    this.tail.className = "tail";
    this.line.replaceChildren(this.tail);
    this.leftOut.replaceChildren();
    this.leftOut.hidden = true;
    this.held = "";
    this.rewind();
    this.reader.textContent = "";
  }

  /** Reset to the start, for a replay. */
  rewind() {
    this.isNew = true;
    this.now = -1; // the last word that has started
    this.isPast = false; // whether it has ended
    this.announced = this.announcedMs = 0; // words announced to screen readers
    for (const token of this.tokens) if (token.node) token.node.className = className(token, this);
    this.box.scrollTop = 0;
    this.draw();
  }

  event(e) {
    EVENTS[e.type]?.(this, e);
  }

  add(token) {
    this.isNew = true;
    token.index = this.tokens.length;
    this.tokens.push(token);
    this.stale = true;
  }

  /** Light the words that start before `sample`, the playback position. Words start in order. */
  update(sample, nowMs) {
    let next = this.now;
    while (next + 1 < this.starts.length && this.starts[next + 1] < sample) next++;
    const isPast = next >= 0 && sample >= (this.ends[next] ?? Infinity);
    if (next !== this.now || isPast !== this.isPast) {
      const from = this.now;
      this.now = next;
      this.isPast = isPast;
      for (let i = Math.max(0, from); i <= next; i++) this.mark(i);
      for (let i = from + 1; i <= next; i++) this.onLit?.(i, sample);
      this.follow();
    }
    if (this.stale) this.draw();
    if (this.isAnnounced && nowMs - this.announcedMs > ANNOUNCE_EVERY_MS && this.announced <= this.now)
      this.announce(nowMs);
  }

  announce(nowMs) {
    this.reader.textContent = this.spellings.slice(this.announced, this.now + 1).join(" ");
    this.announced = this.now + 1;
    this.announcedMs = nowMs;
  }

  /** Playback has ended: no word is current. */
  finish(nowMs) {
    if (this.isAnnounced && this.announced <= this.now) this.announce(nowMs);
    this.isPast = true;
    this.mark(this.now);
  }

  mark(i) {
    this.isNew = true;
    const token = this.byWord[i];
    if (token?.node) token.node.className = className(token, this);
  }

  follow() {
    const node = this.byWord[this.now]?.node;
    if (!node) {
      this.stale = true;
      return;
    }
    const top = node.offsetTop;
    const { scrollTop, clientHeight } = this.box;
    if (top < scrollTop || top > scrollTop + clientHeight - 1.6 * node.offsetHeight) {
      this.box.scrollTop = Math.max(0, top - clientHeight * 0.35);
    }
    this.stale = true;
  }

  /** Remove the words from index `words` on; they will be committed again. */
  truncate(words) {
    this.isNew = true;
    const first = this.byWord[words];
    this.byWord.length = this.spellings.length = Math.min(this.spellings.length, words);
    if (!first) return;
    const isSplit = first.words[0] < words; // a token of several words, some of which stay
    if (isSplit) first.words = first.words.filter((i) => i < words);
    for (const token of this.tokens.splice(first.index + (isSplit ? 1 : 0))) {
      if (token.node?.nextElementSibling?.tagName === "INS") token.node.nextElementSibling.remove();
      token.node?.nextSibling?.remove();
      token.node?.remove();
    }
    this.next = Math.min(this.next, this.tokens.length);
    this.first = Math.min(this.first, this.next);
    this.stale = true;
  }

  setHeld(text) {
    this.held = text;
    this.stale = true;
  }

  draw() {
    this.stale = false;
    const centre = this.byWord[this.now]?.index ?? 0;
    const to = Math.min(this.tokens.length, centre + AHEAD);
    for (; this.next < to; this.next++) this.insert(this.tokens[this.next]);
    for (; this.first < centre - BEHIND; this.first++) {
      const { node } = this.tokens[this.first];
      while (node && this.line.firstChild !== node) this.line.firstChild.remove();
      node?.remove();
      this.tokens[this.first].node = null;
    }
    const from = this.next < this.tokens.length ? this.tokens[this.next].start : (this.tokens.at(-1)?.end ?? 0);
    const rest = this.text.slice(from, from + TAIL_CHARS).join("");
    this.tail.textContent = rest + this.held.slice(0, TAIL_CHARS);
    this.line.classList.toggle("empty", this.tokens.length === 0 && !this.tail.textContent.trim());
  }

  insert(token) {
    const node = document.createElement("span");
    node.textContent = this.text.slice(token.start, token.end).join("");
    node.className = className(token, this);
    if (token.why) node.title = token.why;
    token.node = node;
    this.line.insertBefore(node, this.tail);
    this.line.insertBefore(document.createTextNode(" "), this.tail);
  }

  explain(token) {
    const item = document.createElement("li");
    const what = document.createElement("b");
    what.textContent =
      this.text
        .slice(token.start, Math.min(token.end, token.start + 24))
        .join("")
        .trim() || t("(white space)");
    item.append(what, ` ${token.why}`);
    if (this.leftOut.childElementCount < 6) this.leftOut.append(item);
    this.leftOut.hidden = false;
  }
}

const EVENTS = {
  text(c, e) {
    const chars = Array.from(e.text);
    c.text = c.text.length === e.char_start ? appended(c.text, chars) : c.text.slice(0, e.char_start).concat(chars);
    c.stale = true;
  },
  committed(c, e) {
    const last = c.tokens.at(-1);
    c.spellings[e.i] = e.word;
    if (last && last.start === e.char_start && !last.why) {
      last.words.push(e.i);
      c.byWord[e.i] = last;
    } else {
      const token = { start: e.char_start, end: e.char_end, words: [e.i] };
      c.byWord[e.i] = token;
      c.add(token);
    }
  },
  unsupported(c, e) {
    if (c.tokens.some((one) => one.why && one.start === e.char_start)) return; // repeated event
    const { language } = e.values ?? {};
    const why = t(c.reasons[e.code] ?? e.why, { ...e.values, language: t(language) });
    const token = { start: e.char_start, end: e.char_end, words: [], why };
    c.add(token);
    c.explain(token);
  },
  word_start(c, e) {
    c.starts[e.i] = e.sample;
    c.estimated[e.i] = e.source === "estimate";
  },
  word_end(c, e) {
    c.ends[e.i] = e.sample;
  },
  edited(c, e) {
    c.setVisible(true);
    for (let i = e.first; i <= e.last; i++) {
      if (!c.byWord[i]) continue;
      c.byWord[i].edited = true;
      c.mark(i);
    }
    const node = c.byWord[e.last]?.node;
    if (node?.nextElementSibling?.tagName === "INS") node.nextElementSibling.remove();
    if (!node || !e.text?.trim()) return;
    const added = document.createElement("ins");
    added.textContent = e.text.trim();
    added.title = t("Changed after it was spoken; the speech is not changed.");
    node.after(" ", added);
  },
  revised(c, e) {
    c.truncate(e.words);
    c.starts = c.starts.filter((sample) => sample < e.from_sample).slice(0, e.words);
    c.ends = c.ends.filter((sample) => sample <= e.from_sample).slice(0, e.words);
    c.now = Math.min(c.now, c.starts.length - 1);
  },
};

function appended(chars, more) {
  for (const char of more) chars.push(char);
  return chars;
}

function className(token, caption) {
  const names = ["w"];
  if (token.why) names.push("unsupported");
  if (token.edited) names.push("edited");
  const last = token.words.at(-1) ?? Infinity;
  if (last < caption.now || (last === caption.now && caption.isPast)) names.push("was");
  else if (token.words.includes(caption.now)) names.push("now");
  return names.join(" ");
}
