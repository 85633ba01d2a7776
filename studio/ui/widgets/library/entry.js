// One kept utterance: what it is, what can be done with it, and its title and tags to edit.

import { button, h } from "../rate/dom.js";
import { counted, length, moment, tagsOf } from "./words.js";

let entries = 0; // labels need ids

export class EntryView {
  /** `page` does what the buttons ask. */
  constructor(entry, page) {
    this.page = page;
    this.id = `library-entry-${++entries}`;
    this.element = h("li", { class: "owner-card entry" });
    this.show(entry);
  }

  show(entry) {
    const hadFocus = this.element.contains(document.activeElement);
    this.entry = entry;
    this.called = entry.title || entry.text || "a recording without text";
    const say = { "aria-describedby": this.id };
    this.editing = button("Edit", () => this.edit(), say);
    const tick = h("input", { type: "checkbox", id: `${this.id}-tick`, checked: this.page.isTicked(entry), on: { change: () => this.page.tick(entry, tick.checked) }, ...say });
    const ticked = h("label", { class: "tick", for: tick.id }, tick, "Choose");
    const open = h("a", { class: "button primary", href: `./inspect?kept=${entry.name}`, text: "Open", ...say });
    const actions = [open, button("Download", () => this.page.fetch(this), say), this.editing, button("Delete", () => this.page.remove(this, shortened(this.called)), say), ticked];
    const tags = entry.tags.map((tag) => button(tag, () => this.page.choose(tag), { class: "tag", "aria-label": `Find the tag ${tag}` }));
    this.head = h("h2", { id: this.id, tabindex: -1, class: entry.title ? "" : "text", text: this.called });
    this.element.replaceChildren(
      this.head,
      ...(entry.title && entry.text ? [h("p", { class: "text", text: entry.text })] : []),
      h("p", { class: "muted", text: facts(entry) }),
      ...(entry.annotated.length ? [this.annotated(entry)] : []),
      ...(tags.length ? [h("div", { class: "tags" }, ...tags)] : []),
      h("div", { class: "actions" }, ...actions),
    );
    if (hadFocus) this.editing.focus();
  }

  focus() {
    this.head.focus();
  }

  /** Who annotated it; each name opens what they marked. */
  annotated({ name, annotated }) {
    const links = annotated.flatMap(({ annotator, marks, is_done: isDone, problem }, k) => {
      const about = ` (${counted(marks, "mark")}${isDone ? ", done" : ""})`;
      const one = problem ? [problem] : [h("a", { href: `./inspect?${new URLSearchParams({ kept: name, annotator })}`, text: annotator }), about];
      return k ? [", ", ...one] : one;
    });
    return h("p", { class: "muted annotated" }, "Annotated by ", ...links);
  }

  edit() {
    const field = (name, text, value, attributes) => {
      const input = h("input", { type: "text", id: `${this.id}-${name}`, autocomplete: "off", ...attributes });
      input.value = value;
      return [input, h("div", { class: "field" }, h("label", { for: input.id, text }), input)];
    };
    const [title, titleField] = field("title", "Title", this.entry.title, { maxlength: 200 });
    const [tags, tagsField] = field("tags", "Tags, with commas between them", this.entry.tags.join(", "), { maxlength: 2000 });
    const said = h("p", { class: "owner-notice", data: { level: "error" }, role: "alert", hidden: true });
    const save = async (event) => {
      event.preventDefault();
      const refused = await this.page.note(this, title.value.trim(), tagsOf(tags.value));
      said.hidden = !refused;
      said.textContent = refused?.message ?? "";
    };
    const leave = () => this.show(this.entry);
    const actions = h("div", { class: "actions" }, h("button", { type: "submit", class: "primary", text: "Save" }), button("Cancel", leave));
    const keys = { submit: save, keydown: (event) => event.key === "Escape" && leave() };
    const form = h("form", { class: "note", "aria-label": `Title and tags of ${shortened(this.called)}`, on: keys }, titleField, tagsField, said, actions);
    this.element.replaceChildren(...this.element.querySelectorAll(":scope > h2, :scope > p"), form);
    title.focus();
  }
}

function facts(entry) {
  const who = entry.voice ? [entry.voice, entry.speaker].filter(Boolean).join(":") : "recording";
  const words = entry.words ? [counted(entry.words, "word")] : [];
  return [who, moment(entry.added_at), length(entry.duration_ms), ...words].join(" · ");
}

const shortened = (text) => (text.length > 80 ? `${text.slice(0, 80)}…` : text);
