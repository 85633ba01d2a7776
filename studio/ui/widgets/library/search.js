// The search form: words, voice, tag and days. The page address holds the search, so it can be linked.

import { counted } from "../page/plurals.js";
import { button, h } from "../rate/dom.js";
import { midnight } from "./words.js";

const TYPING_MS = 250;
const FIELDS = ["text", "voice", "tag", "since", "until"];
const MAX_TAGS = 24; // a button shows the rest

const parameters = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));

export class Search {
  /** `find(true)` is called when the search has changed. */
  constructor(find) {
    this.search = () => find(true);
    const params = new URLSearchParams(location.search);
    this.values = Object.fromEntries(FIELDS.map((name) => [name, params.get(name) ?? ""]));
    this.keep = params.get("keep"); // token of a trace to add
    this.tags = h("div", { class: "tags", role: "group", "aria-label": "Tags" });
    this.text = this.field("text", "input", {
      type: "search",
      maxlength: 200,
      autocomplete: "off",
      placeholder: "words in text or title",
    });
    this.voice = this.field("voice", "select");
    const days = [this.field("since", "input", { type: "date" }), this.field("until", "input", { type: "date" })];
    const row = [
      ["Words", this.text, "words"],
      ["Voice", this.voice],
      ["From", days[0]],
      ["Until", days[1]],
    ];
    const fields = row.map(([text, field, part]) =>
      h("div", { class: `field ${part ?? ""}` }, h("label", { for: field.id, text }), field),
    );
    this.element = h(
      "form",
      {
        class: "owner-card search",
        role: "search",
        "aria-label": "The library",
        on: { submit: (event) => this.submit(event) },
      },
      h("div", { class: "search-row" }, ...fields),
      this.tags,
    );
    this.choices([], []);
  }

  field(name, tag, attributes = {}) {
    const take = () => {
      this.values[name] = field.value.trim();
      this.changed(name === "text" ? TYPING_MS : 0);
    };
    const field = h(tag, {
      id: `library-${name}`,
      name,
      ...attributes,
      on: { [tag === "select" ? "change" : "input"]: take },
    });
    field.value = this.values[name];
    return field;
  }

  get isEmpty() {
    return FIELDS.every((name) => !this.values[name]);
  }

  submit(event) {
    event.preventDefault();
    this.changed(0);
  }

  changed(afterMs) {
    clearTimeout(this.timer);
    this.timer = setTimeout(this.search, afterMs);
  }

  clear() {
    for (const name of FIELDS) this.values[name] = "";
    for (const field of this.element.elements) if (field.name) field.value = "";
    this.changed(0);
    this.text.focus();
  }

  /** Query parameters for the server: days of the viewer's time zone as Unix seconds. */
  query(more = {}) {
    const { since, until, ...rest } = this.values;
    const days = { since_s: since && midnight(since), until_s: until && midnight(until, 1) };
    return parameters({ ...rest, ...days, ...more });
  }

  /** Write the search to the page address. */
  updateAddress() {
    const address = new URL(location.href);
    address.search = parameters({ ...this.values, keep: this.keep ?? "" }).toString();
    history.replaceState(history.state, "", address);
  }

  /** Remove the added trace from the address. */
  clearKeep() {
    this.keep = null;
    this.updateAddress();
  }

  /** Update the tags and voices on offer. */
  choices(tags, voices) {
    const { voice, tag } = this.values;
    const options = voice && !voices.includes(voice) ? [voice, ...voices] : voices;
    this.voice.replaceChildren(new Option("Any", ""), ...options.map((one) => new Option(one, one)));
    this.voice.value = voice;
    const known = tag && !tags.some(([one]) => one === tag) ? [[tag, 0], ...tags] : tags;
    const frequent = new Set(
      [...known]
        .sort((a, b) => b[1] - a[1])
        .slice(0, MAX_TAGS)
        .map(([one]) => one),
    );
    const visible = this.hasAllTags ? known : known.filter(([one]) => frequent.has(one) || one === tag);
    const focused = /** @type {HTMLElement} */ (document.activeElement)?.dataset.tag;
    this.tags.replaceChildren(...visible.map((one) => this.chip(...one)));
    if (visible.length < known.length)
      this.tags.append(button(`All ${counted(known.length, "tag")}`, () => this.all(tags, voices), { class: "quiet" }));
    this.tags.hidden = !known.length;
    if (focused) [...this.tags.children].find(({ dataset }) => dataset.tag === focused)?.focus();
  }

  all(tags, voices) {
    this.hasAllTags = true;
    this.choices(tags, voices);
    this.tags.firstElementChild.focus();
  }

  chip(tag, count) {
    const press = () => this.choose(this.values.tag === tag ? "" : tag);
    return h(
      "button",
      {
        type: "button",
        class: "tag",
        "aria-pressed": String(this.values.tag === tag),
        data: { tag },
        on: { click: press },
      },
      h("span", { text: tag }),
      h("small", { class: "muted", text: count }),
    );
  }

  /** Set the tag filter; empty for any. */
  choose(tag) {
    this.values.tag = tag;
    this.changed(0);
  }
}
