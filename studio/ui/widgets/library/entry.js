// One library entry: its facts and actions, and a form for title and tags.

import { counted } from "../page/plurals.js";
import { button, h } from "../rate/dom.js";
import { length, moment, tagsOf } from "./words.js";

let entries = 0; // for unique ids

export class EntryView {
  /** `page` handles the actions. */
  constructor(entry, page) {
    this.page = page;
    this.id = `library-entry-${++entries}`;
    this.isPlaying = false;
    this.element = h("li", { class: "owner-card entry" });
    this.show(entry);
  }

  show(entry) {
    const hadFocus = this.element.contains(document.activeElement);
    this.entry = entry;
    this.label = entry.title || entry.text || "a recording without text";
    const described = { "aria-describedby": this.id };
    this.editing = button("Edit", () => this.edit(), described);
    const tick = h("input", {
      type: "checkbox",
      id: `${this.id}-tick`,
      checked: this.page.isTicked(entry),
      on: { change: () => this.page.tick(entry, tick.checked) },
      ...described,
    });
    const ticked = h("label", { class: "tick", for: tick.id }, tick, "Choose");
    this.stop();
    this.playing = button("Play", () => this.play(), described);
    const open = h("a", { class: "button primary", href: `./inspect?kept=${entry.name}`, text: "Open", ...described });
    const actions = [
      open,
      this.playing,
      ...this.downloads(described),
      this.editing,
      button("Delete", () => this.page.remove(this, shortened(this.label)), described),
      ticked,
    ];
    const tags = entry.tags.map((tag) =>
      button(tag, () => this.page.choose(tag), { class: "tag", "aria-label": `Filter by tag ${tag}` }),
    );
    this.head = h("h2", { id: this.id, tabindex: -1, class: entry.title ? "" : "text", text: this.label });
    this.element.replaceChildren(
      this.head,
      ...(entry.title && entry.text ? [h("p", { class: "text", text: entry.text })] : []),
      h("p", { class: "muted", text: facts(entry) }),
      ...(entry.annotated.length ? [this.annotators(entry)] : []),
      ...(tags.length ? [h("div", { class: "tags" }, ...tags)] : []),
      h("div", { class: "actions" }, ...actions),
    );
    if (hadFocus) this.editing.focus();
  }

  focus() {
    this.head.focus();
  }

  /** The sound, its captions where it has a text, and of an utterance of a voice its trace. */
  downloads(described) {
    const { entry, page } = this;
    const captions = Object.entries({ srt: "SRT", vtt: "WebVTT" }).map(([format, name]) =>
      button(name, () => page.saveCaptions(entry, format), { title: "Captions", ...described }),
    );
    if (entry.kind === "recording")
      return [button("Download", () => page.saveFile(entry), described), ...(entry.text ? captions : [])];
    return [
      button("Download", () => page.saveSound(entry), described),
      ...captions,
      button("Trace", () => page.saveFile(entry), described),
    ];
  }

  /** Play the sound, or stop it. */
  play() {
    if (this.isPlaying) return this.stop();
    const label = this.playing.firstElementChild;
    return this.page.play(this.entry, (isPlaying) => {
      this.isPlaying = isPlaying;
      label.textContent = isPlaying ? "Stop" : "Play";
    });
  }

  stop() {
    if (this.isPlaying) this.page.sounds.stop();
  }

  /** Links to the documents of its annotators. */
  annotators({ name, annotated }) {
    const links = annotated.flatMap(({ annotator, marks, is_done: isDone, problem }, k) => {
      const about = ` (${counted(marks, "mark")}${isDone ? ", done" : ""})`;
      const one = problem
        ? [problem]
        : [h("a", { href: `./inspect?${new URLSearchParams({ kept: name, annotator })}`, text: annotator }), about];
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
    const [tags, tagsField] = field("tags", "Tags, separated by commas", this.entry.tags.join(", "), {
      maxlength: 2000,
    });
    const notice = h("p", { class: "owner-notice", data: { level: "error" }, role: "alert", hidden: true });
    const save = async (event) => {
      event.preventDefault();
      const error = await this.page.note(this, title.value.trim(), tagsOf(tags.value));
      notice.hidden = !error;
      notice.textContent = error?.message ?? "";
    };
    const leave = () => this.show(this.entry);
    const actions = h(
      "div",
      { class: "actions" },
      h("button", { type: "submit", class: "primary", text: "Save" }),
      button("Cancel", leave),
    );
    const keys = { submit: save, keydown: (event) => event.key === "Escape" && leave() };
    const form = h(
      "form",
      { class: "note", "aria-label": `Title and tags of ${shortened(this.label)}`, on: keys },
      titleField,
      tagsField,
      notice,
      actions,
    );
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
