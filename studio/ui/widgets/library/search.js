// What is looked for: words, a voice, a tag, days. The address says it too, so that a search can be opened by a link.

import { button, h } from "../rate/dom.js";
import { counted } from "./words.js";

const TYPING_MS = 250;
const FIELDS = ["text", "voice", "tag", "since", "until"];
const MOST_TAGS = 24; // others are behind a button

export class Search {
  /** `find` is called when what is looked for has changed. */
  constructor(find) {
    this.found = () => find(true);
    const asked = new URLSearchParams(location.search);
    this.wanted = Object.fromEntries(FIELDS.map((name) => [name, asked.get(name) ?? ""]));
    this.keep = asked.get("keep"); // the token of a trace that is to be kept
    this.tags = h("div", { class: "tags", role: "group", "aria-label": "Tags" });
    this.text = this.field("text", "input", { type: "search", maxlength: 200, autocomplete: "off", placeholder: "words in text or title" });
    this.voice = this.field("voice", "select");
    const days = [this.field("since", "input", { type: "date" }), this.field("until", "input", { type: "date" })];
    const row = [["Words", this.text, "words"], ["Voice", this.voice], ["From (UTC)", days[0]], ["Until (UTC)", days[1]]];
    const fields = row.map(([text, field, part]) => h("div", { class: `field ${part ?? ""}` }, h("label", { for: field.id, text }), field));
    this.element = h("form", { class: "owner-card search", role: "search", "aria-label": "The library", on: { submit: (event) => this.sent(event) } }, h("div", { class: "search-row" }, ...fields), this.tags);
    this.choices([], []);
  }

  field(name, tag, attributes = {}) {
    const take = () => {
      this.wanted[name] = field.value.trim();
      this.changed(name === "text" ? TYPING_MS : 0);
    };
    const field = h(tag, { id: `library-${name}`, name, ...attributes, on: { [tag === "select" ? "change" : "input"]: take } });
    field.value = this.wanted[name];
    return field;
  }

  get isEmpty() {
    return FIELDS.every((name) => !this.wanted[name]);
  }

  sent(event) {
    event.preventDefault();
    this.changed(0);
  }

  changed(afterMs) {
    clearTimeout(this.timer);
    this.timer = setTimeout(this.found, afterMs);
  }

  clear() {
    for (const name of FIELDS) this.wanted[name] = "";
    for (const field of this.element.elements) if (field.name) field.value = "";
    this.changed(0);
    this.text.focus();
  }

  /** As the server and the address have it. */
  query(more = {}) {
    return new URLSearchParams(Object.entries({ ...this.wanted, ...more }).filter(([, value]) => value !== ""));
  }

  /** Write it into the address. */
  place() {
    const address = new URL(location.href);
    address.search = this.query(this.keep ? { keep: this.keep } : {});
    history.replaceState(history.state, "", address);
  }

  /** What was to be kept is. */
  forget() {
    this.keep = null;
    this.place();
  }

  /** Which tags and voices there are. */
  choices(tags, voices) {
    const { voice, tag } = this.wanted;
    const among = voice && !voices.includes(voice) ? [voice, ...voices] : voices;
    this.voice.replaceChildren(new Option("Any", ""), ...among.map((one) => new Option(one, one)));
    this.voice.value = voice;
    const known = tag && !tags.some(([one]) => one === tag) ? [[tag, 0], ...tags] : tags;
    const few = new Set([...known].sort((a, b) => b[1] - a[1]).slice(0, MOST_TAGS).map(([one]) => one));
    const shown = this.hasAllTags ? known : known.filter(([one]) => few.has(one) || one === tag);
    const focused = document.activeElement?.dataset?.tag;
    this.tags.replaceChildren(...shown.map((one) => this.chip(...one)));
    if (shown.length < known.length) this.tags.append(button(`All ${counted(known.length, "tag")}`, () => this.all(tags, voices), { class: "quiet" }));
    this.tags.hidden = !known.length;
    if (focused) [...this.tags.children].find(({ dataset }) => dataset.tag === focused)?.focus();
  }

  all(tags, voices) {
    this.hasAllTags = true;
    this.choices(tags, voices);
    this.tags.firstElementChild.focus();
  }

  chip(tag, count) {
    const press = () => this.choose(this.wanted.tag === tag ? "" : tag);
    return h("button", { type: "button", class: "tag", "aria-pressed": String(this.wanted.tag === tag), data: { tag }, on: { click: press } }, h("span", { text: tag }), h("small", { class: "muted", text: count }));
  }

  /** Look for a tag; without one for any. */
  choose(tag) {
    this.wanted.tag = tag;
    this.changed(0);
  }
}
