// The Library page: what was kept is looked for, opened, fetched, noted and deleted; files are added.

import { Calls, download, token } from "../owner/calls.js";
import { ask, button, h } from "../rate/dom.js";
import { Adding } from "./adding.js";
import { Assignments } from "./assignments.js";
import { EntryView } from "./entry.js";
import { Search } from "./search.js";
import { counted } from "./words.js";

const ASK = "Give the owner's token. It was printed when the studio first started; studio campaign token makes a new one.";
const MOST_COMPARED = 8;
const how = () => [
  h("li", { text: "Press Keep on the Live page when an utterance has ended, or on the Inspect page while you look at it." }),
  h("li", { text: "Drop a trace, or a WAV with its text, on this page." }),
  h("li", { text: "On the command line: " }, h("code", { text: "studio library add FILE" })),
];

class Library {
  constructor(root, server) {
    Object.assign(this, { root, calls: new Calls(server, "library/") });
    this.page = root.querySelector(".library-page");
    this.status = root.querySelector(".status");
    this.views = []; // as they are shown
    this.asked = 0; // only the answer to the last question is shown
    this.ticked = new Map(); // name and entry of what was chosen, in the order of the ticks
    this.draw();
  }

  draw() {
    this.search = new Search((isTyped) => this.find({ isTyped }));
    this.adding = new Adding((file, text, title) => this.send(file, text, title));
    const sure = (question, text, yes) => ask(this.dialog, question, text, "Leave it", yes);
    this.assignments = new Assignments(this.calls, () => this.chosen(), sure);
    this.count = h("p", { class: "muted count", role: "status" });
    this.list = h("ul", { class: "entries", "aria-label": "What was kept" });
    this.against = h("div", { class: "against", hidden: true });
    this.none = h("div", { class: "owner-card none", hidden: true });
    this.more = button("Show more", () => this.find({ isMore: true }), { class: "more", hidden: true });
    this.dialog = h("dialog", { class: "owner-ask" });
    this.heading = h("h1", { text: "Library", tabindex: -1 });
    this.whole = h("div", { class: "library-whole", hidden: true }, this.adding.element, this.assignments.element, this.search.element, this.count, this.against, this.none, this.list, this.more);
    this.page.replaceChildren(this.heading, this.whole, this.dialog);
    this.adding.catchDrops(this.root);
  }

  async begin() {
    this.tell(token() ? "" : ASK);
    this.whole.hidden = true;
    this.root.dataset.stage = "door";
    if (!token() || !(await this.find())) return;
    this.whole.hidden = false;
    this.root.dataset.stage = "open";
    const trace = this.search.keep;
    if (trace) this.refused(await this.change(() => this.calls.post("keep", { trace, title: "", tags: [] }), (entry) => this.kept(entry).edit()));
  }

  tell(text = "", level = "info") {
    this.status.textContent = text;
    this.status.dataset.level = level;
    this.status.hidden = !text;
  }

  refused(error) {
    if (error) this.tell(error.message, "error");
  }

  // --- what is listed ---------------------------------------------------------------------------

  /** Look for what the fields say, or for the next page of it; answers whether that went well. */
  async find({ isTyped = false, isMore = false } = {}) {
    const mine = ++this.asked;
    if (isTyped) this.top = null;
    const above = this.top ? 1 : 0; // it may be in the pages too: one entry comes twice rather than never
    const offset = isMore ? this.views.length - above : 0;
    const wanted = this.search.query({ offset });
    try {
      const found = await this.calls.get(`entries?${wanted}`);
      if (mine !== this.asked) return true;
      if (isTyped) this.tell();
      this.search.place();
      this.hasMore = offset + found.entries.length < found.of;
      this.fill(found, isMore);
      return true;
    } catch (error) {
      if (mine === this.asked) this.tell(error.message, "error");
      return false;
    }
  }

  fill(found, isMore) {
    const before = isMore ? this.views : this.views.filter((one) => one === this.top);
    const known = new Set(before.map(({ entry }) => entry.sha256));
    const fresh = found.entries.filter(({ sha256 }) => !known.has(sha256)).map((entry) => new EntryView(entry, this));
    this.views = [...before, ...fresh];
    if (isMore) this.list.append(...fresh.map(({ element }) => element));
    else this.list.replaceChildren(...this.views.map(({ element }) => element));
    if (isMore) fresh[0]?.focus();
    this.choices(found);
    this.assignments.again();
  }

  /** What a new assignment is about: the utterances that were chosen, else those that are shown. */
  chosen() {
    const picked = [...this.ticked.keys()];
    const names = picked.length ? picked : this.views.map(({ entry }) => entry.name);
    const which = picked.length ? "those that you chose" : "all that is shown below. Tick Choose at some of them for fewer";
    return { names, text: `About ${counted(names.length, "utterance")}: ${which}.` };
  }

  /** How many there are, and which tags and voices. */
  choices({ of, tags, voices }) {
    this.of = of;
    this.search.choices(tags, voices);
    this.count.textContent = of ? `${counted(of, "utterance")}${this.search.isEmpty ? "" : " found"}` : "";
    this.more.hidden = !this.hasMore;
    this.none.hidden = this.views.length > 0;
    if (this.none.hidden) return;
    const hint = this.search.isEmpty
      ? [h("h2", { text: "Nothing is kept yet" }), h("ul", {}, ...how())]
      : [h("h2", { text: "Nothing fits" }), h("p", { class: "muted", text: "All of it must hold: words in text or title, voice, tag and days." }), button("Show everything", () => this.search.clear())];
    this.none.replaceChildren(...hint);
  }

  /** Show what was kept just now above everything else. */
  kept(entry) {
    this.search.forget();
    const shown = new EntryView(entry, this);
    for (const one of this.views.filter((other) => other.entry.sha256 === entry.sha256)) this.drop(one);
    this.views.unshift(shown);
    this.top = shown;
    this.list.prepend(shown.element);
    this.tell("Kept.");
    return shown;
  }

  // --- what is chosen, to be compared or assigned -------------------------------------------------------------------

  isTicked({ name }) {
    return this.ticked.has(name);
  }

  tick(entry, isOn) {
    if (isOn) this.ticked.set(entry.name, entry);
    else this.ticked.delete(entry.name);
    this.showTicked();
    this.assignments.again();
  }

  /** From two on they can be compared; eight are as many as the page lays beside each other. */
  showTicked() {
    const names = [...this.ticked.keys()];
    const query = new URLSearchParams(names.map((name) => ["kept", name]));
    const isReady = names.length > 1 && names.length <= MOST_COMPARED;
    const hint = names.length > MOST_COMPARED ? `At most ${MOST_COMPARED} can be compared.` : names.length < 2 ? "Choose one more to compare them." : "";
    this.against.hidden = !names.length;
    this.against.replaceChildren(
      ...(isReady ? [h("a", { class: "button primary", href: `./compare?${query}`, text: `Compare ${names.length}` })] : []),
      button("Choose none", () => this.untick()),
      h("span", { class: "muted", role: "status", text: hint || names.map((name) => this.ticked.get(name).title || this.ticked.get(name).text || name).map((called) => (called.length > 40 ? `${called.slice(0, 40)}…` : called)).join(" · ") }),
    );
  }

  untick() {
    this.ticked.clear();
    for (const tick of this.list.querySelectorAll(".tick input")) tick.checked = false;
    this.showTicked();
    this.assignments.again();
    this.heading.focus();
  }

  drop(view) {
    this.views = this.views.filter((one) => one !== view);
    if (this.top === view) this.top = null;
    view.element.remove();
  }

  // --- changes ----------------------------------------------------------------------------------

  /** Ask for a change and show what came of it; answers the error where it was refused. */
  async change(work, done) {
    try {
      done(await work());
    } catch (error) {
      return error;
    }
    const found = await this.calls.get(`entries?${this.search.query()}`).catch(() => null);
    if (found) this.choices(found);
    return null;
  }

  async send(file, text, title) {
    const headers = { "Content-Type": "application/octet-stream", "X-Studio-Text": encodeURIComponent(text), "X-Studio-Title": encodeURIComponent(title) };
    this.tell(`Sending ${file.name} …`);
    const error = await this.change(() => this.calls.json("POST", "files", file, headers), (entry) => this.kept(entry));
    if (error) this.tell();
    return error;
  }

  note(view, title, tags) {
    const { name } = view.entry;
    return this.change(() => this.calls.post("note", { name, title, tags }), (entry) => {
      this.tell();
      view.show(entry);
    });
  }

  async fetch({ entry }) {
    const ending = entry.kind === "recording" ? "wav" : "trace";
    try {
      await download(await this.calls.call("GET", `file/${entry.name}`), `utterance-${entry.name}.${ending}`);
    } catch (error) {
      this.tell(error.message, "error");
    }
  }

  async remove(view, called) {
    const isSure = await ask(this.dialog, `Delete “${called}”?`, "Its file, its title, its tags and its annotations go, for good.", "Leave it", "Delete it");
    if (!isSure) return;
    const error = await this.change(() => this.calls.post("remove", { name: view.entry.name }), () => {
      this.drop(view);
      this.tick(view.entry, false);
      this.tell("Deleted.");
      this.heading.focus();
    });
    this.refused(error);
  }

  /** Look for the tag of an entry. */
  choose(tag) {
    this.search.choose(tag);
    this.heading.focus();
  }
}

/** Called by Gradio when the component is in the page. */
export function start(element, server) {
  const root = element.querySelector(".library");
  if (root.isStarted) return;
  root.isStarted = true;
  const library = new Library(root, server);
  addEventListener("studio-owner", () => library.begin());
  library.begin();
}
