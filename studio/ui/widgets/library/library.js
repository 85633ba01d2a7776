// The Library page: search, open, download, edit, delete and add utterances.

import { Calls, download, save } from "../owner/calls.js";
import { counted } from "../page/plurals.js";
import { ask, button, h, showStatus } from "../rate/dom.js";
import { Assignments } from "./assignments.js";
import { compareBar } from "./compare_bar.js";
import { EntryView } from "./entry.js";
import { HubVoices } from "./hub_voices.js";
import { Publishing } from "./publishing.js";
import { Search } from "./search.js";
import { Sounds } from "./sounds.js";
import { Speakers } from "./speakers.js";
import { Systems } from "./systems.js";
import { UploadForm } from "./upload_form.js";

const waysToAdd = () => [
  h("li", {
    text: "Press Save to library on the Live page when an utterance has ended, or on the Inspect page while it is open.",
  }),
  h("li", { text: "Drop a trace, or a WAV with its text, on this page." }),
  h("li", { text: "On the command line: " }, h("code", { text: "studio library add FILE" })),
];

class Library {
  constructor(root, server, base) {
    this.root = root;
    this.base = base;
    this.server = server;
    this.calls = new Calls(server, "library/");
    this.systemCalls = new Calls(server, "systems");
    this.sounds = new Sounds(this.calls);
    this.page = root.querySelector(".library-page");
    this.status = root.querySelector(".status");
    this.views = []; // in display order
    this.searchId = 0; // responses to older searches are ignored
    this.ticked = new Map(); // name -> selected entry, in selection order
    this.draw();
  }

  draw() {
    this.search = new Search((isTyped) => this.find({ isTyped }));
    this.upload = new UploadForm((file, text, title) => this.send(file, text, title));
    const confirm = (question, text, yes) => ask(this.dialog, question, text, "Cancel", yes);
    this.assignments = new Assignments(this.calls, () => this.chosen(), confirm);
    this.systems = new Systems(this.systemCalls, confirm);
    this.voices = new HubVoices(this.server, confirm);
    this.publishing = new Publishing(this.server, confirm);
    this.speakers = new Speakers(this.server, this.base, confirm);
    this.count = h("p", { class: "muted count", role: "status" });
    this.list = h("ul", { class: "entries", "aria-label": "Library entries" });
    this.against = h("div", { class: "against", hidden: true });
    this.none = h("div", { class: "owner-card none", hidden: true });
    this.more = button("Show more", () => this.find({ isMore: true }), { class: "more", hidden: true });
    this.dialog = h("dialog", { class: "owner-ask" });
    this.heading = h("h1", { text: "Library", tabindex: -1 });
    this.content = h(
      "div",
      { class: "library-whole", hidden: true },
      this.upload.element,
      this.assignments.element,
      this.search.element,
      this.count,
      this.against,
      this.none,
      this.list,
      this.more,
      h("p", { class: "muted" }, h("a", { href: "lexicon", text: "Lexicon" }), ": how words are read."),
      this.systems.element,
      this.speakers.element,
      this.voices.element,
      this.publishing.element,
    );
    this.page.replaceChildren(this.heading, this.content, this.dialog);
    this.upload.catchDrops(this.root);
  }

  async begin() {
    if (!(await this.find())) return;
    this.content.hidden = false;
    this.root.dataset.stage = "open";
    this.speakers.openIfNamed();
    const trace = this.search.keep;
    if (trace)
      this.showError(
        await this.change(
          () => this.calls.post("keep", { trace, title: "", tags: [] }),
          (entry) => this.added(entry).edit(),
        ),
      );
  }

  showMessage(text = "", level = "info") {
    showStatus(this.status, text, level);
  }

  showError(error) {
    if (error) this.showMessage(error.message, "error");
  }

  // --- search -----------------------------------------------------------------------------------

  /** Search by the form, or load the next page; resolves to whether that succeeded. */
  async find({ isTyped = false, isMore = false } = {}) {
    const id = ++this.searchId;
    if (isTyped) this.top = null;
    const above = this.top ? 1 : 0; // it may also be in a page: a duplicate is better than a missing entry
    const offset = isMore ? this.views.length - above : 0;
    const query = this.search.query({ offset });
    try {
      const page = await this.calls.get(`entries?${query}`);
      if (id !== this.searchId) return true;
      if (isTyped) this.showMessage();
      this.search.updateAddress();
      this.hasMore = offset + page.entries.length < page.of;
      this.fill(page, isMore);
      return true;
    } catch (error) {
      if (id === this.searchId) this.showMessage(error.message, "error");
      return false;
    }
  }

  fill(page, isMore) {
    const before = isMore ? this.views : this.views.filter((one) => one === this.top);
    const known = new Set(before.map(({ entry }) => entry.sha256));
    const fresh = page.entries.filter(({ sha256 }) => !known.has(sha256)).map((entry) => new EntryView(entry, this));
    this.views = [...before, ...fresh];
    if (isMore) this.list.append(...fresh.map(({ element }) => element));
    else this.list.replaceChildren(...this.views.map(({ element }) => element));
    if (isMore) fresh[0]?.focus();
    this.choices(page);
    this.assignments.selectionChanged();
  }

  /** The utterances of a new assignment: the selected ones, else all that are listed. */
  chosen() {
    const picked = [...this.ticked.keys()];
    const names = picked.length ? picked : this.views.map(({ entry }) => entry.name);
    const which = picked.length ? "the ones you chose" : "all that are listed below. Tick Choose to select fewer";
    return { names, text: `About ${counted(names.length, "utterance")}: ${which}.` };
  }

  /** Update the counts, tags and voices. */
  choices({ of, tags, voices }) {
    this.of = of;
    this.search.choices(tags, voices);
    this.count.textContent = of ? `${counted(of, "utterance")}${this.search.isEmpty ? "" : " found"}` : "";
    this.more.hidden = !this.hasMore;
    this.none.hidden = this.views.length > 0;
    if (this.none.hidden) return;
    const hint = this.search.isEmpty
      ? [h("h2", { text: "The library is empty" }), h("ul", {}, ...waysToAdd())]
      : [
          h("h2", { text: "No matches" }),
          h("p", {
            class: "muted",
            text: "Entries must match all filters: words in text or title, voice, tag and days.",
          }),
          button("Clear filters", () => this.search.clear()),
        ];
    this.none.replaceChildren(...hint);
  }

  /** Show a new entry at the top. */
  added(entry) {
    this.search.clearKeep();
    const view = new EntryView(entry, this);
    for (const one of this.views.filter((other) => other.entry.sha256 === entry.sha256)) this.drop(one);
    this.views.unshift(view);
    this.top = view;
    this.list.prepend(view.element);
    this.showMessage("Added.");
    return view;
  }

  // --- selection --------------------------------------------------------------------------------

  isTicked({ name }) {
    return this.ticked.has(name);
  }

  tick(entry, isOn) {
    if (isOn) this.ticked.set(entry.name, entry);
    else this.ticked.delete(entry.name);
    this.showTicked();
    this.assignments.selectionChanged();
  }

  showTicked() {
    this.against.hidden = !this.ticked.size;
    this.against.replaceChildren(...compareBar(this.ticked, () => this.untick()));
  }

  untick() {
    this.ticked.clear();
    for (const tick of this.list.querySelectorAll(".tick input")) tick.checked = false;
    this.showTicked();
    this.assignments.selectionChanged();
    this.heading.focus();
  }

  drop(view) {
    this.views = this.views.filter((one) => one !== view);
    if (this.top === view) this.top = null;
    view.element.remove();
  }

  // --- changes ----------------------------------------------------------------------------------

  /** Run a change and refresh the counts; resolves to an error or null. */
  async change(work, done) {
    try {
      done(await work());
    } catch (error) {
      return error;
    }
    const page = await this.calls.get(`entries?${this.search.query()}`).catch(() => null);
    if (page) this.choices(page);
    return null;
  }

  async send(file, text, title) {
    const headers = {
      "Content-Type": "application/octet-stream",
      "X-Studio-Text": encodeURIComponent(text),
      "X-Studio-Title": encodeURIComponent(title),
    };
    this.showMessage(`Sending ${file.name} …`);
    const error = await this.change(
      () => this.calls.json("POST", "files", file, headers),
      (entry) => this.added(entry),
    );
    if (error) this.showMessage();
    return error;
  }

  note(view, title, tags) {
    const { name } = view.entry;
    return this.change(
      () => this.calls.post("note", { name, title, tags }),
      (entry) => {
        this.showMessage();
        view.show(entry);
      },
    );
  }

  /** Save the file of an entry: its trace or recording. */
  saveFile({ name, kind }) {
    const ending = kind === "recording" ? "wav" : "trace";
    return this.tried(async () =>
      download(await this.calls.call("GET", `file/${name}`), `utterance-${name}.${ending}`),
    );
  }

  /** Save the sound of a trace. */
  saveSound(entry) {
    return this.tried(async () => save(await this.sounds.wav(entry), `utterance-${entry.name}.wav`));
  }

  /** Save the captions of its sound. */
  saveCaptions(entry, format) {
    return this.tried(async () => save(await this.sounds.captions(entry, format), `utterance-${entry.name}.${format}`));
  }

  /** Play or stop the sound of an entry; `show(isPlaying)` is called on both. */
  play(entry, show) {
    return this.tried(() => this.sounds.play(entry, show));
  }

  async tried(work) {
    try {
      await work();
    } catch (error) {
      this.showMessage(error.message, "error");
    }
  }

  async remove(view, label) {
    const isSure = await ask(
      this.dialog,
      `Delete “${label}”?`,
      "Its file, title, tags and annotations are deleted permanently.",
      "Cancel",
      "Delete",
    );
    if (!isSure) return;
    const error = await this.change(
      () => this.calls.post("remove", { name: view.entry.name }),
      () => {
        view.stop();
        this.drop(view);
        this.tick(view.entry, false);
        this.showMessage("Deleted.");
        this.heading.focus();
      },
    );
    this.showError(error);
  }

  choose(tag) {
    this.search.choose(tag);
    this.heading.focus();
  }
}

export function start(element, { server, base }) {
  const root = element.querySelector(".library");
  if (root.isStarted) return;
  root.isStarted = true;
  const library = new Library(root, server, base);
  library.begin();
}
