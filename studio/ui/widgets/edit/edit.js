// The owner's page for one draft: create from a template, edit with autosave, preview, and open for raters.

import { Terms } from "../glossary/tips.js";
import { AGAIN_MS, Calls, download } from "../owner/calls.js";
import { counted } from "../page/plurals.js";
import { ask as askIn, h, showStatus } from "../rate/dom.js";
import { Checks } from "./checks.js";
import { panel, words } from "./design.js";
import { newTest } from "./new_test.js";
import { Preview } from "./preview.js";
import { Questions } from "./questions.js";
import { Raters } from "./raters.js";
import { readyCard } from "./ready.js";
import { Systems } from "./systems.js";
import { TextList } from "./text_list.js";

const SAVE_MS = 600;
const POLL_MS = 1000; // while texts are synthesized
const draft = (name, path = "") => `drafts/${encodeURIComponent(name)}${path}`;

class Editor {
  constructor(root, base, server, terms) {
    this.root = root;
    this.terms = terms;
    this.base = base;
    this.server = server;
    this.calls = new Calls(server, "mos/owner/");
    this.name = new URLSearchParams(location.search).get("campaign") ?? "";
    this.page = root.querySelector(".edit-page");
    this.status = root.querySelector(".status");
    this.templates = this.voices = []; // of the server
    /** @type {Promise<any>} */
    this.saving = Promise.resolve(); // changes are sent one at a time
  }

  async begin() {
    try {
      const [offer, { voices }] = await Promise.all([
        this.calls.get("templates"),
        fetch(new URL("api/voices", this.server)).then((answer) => answer.json()),
      ]);
      Object.assign(this, { templates: offer.templates, voices });
      if (!this.name) return this.drawNew(offer);
      this.draw(await this.calls.get(draft(this.name)));
    } catch (error) {
      this.page.replaceChildren();
      this.showMessage(error.message, "error");
    }
    return undefined;
  }

  showMessage(text = "", level = "info") {
    showStatus(this.status, text, level);
  }

  async drawNew(offer) {
    const taken = (await this.calls.get("campaigns")).map(({ name }) => name);
    this.showMessage();
    this.root.dataset.stage = "new";
    const create = async ({ template, name, systems, texts }) => {
      try {
        const state = await this.calls.post("drafts", { template, name });
        this.name = state.name;
        for (const system of systems) await this.calls.post(draft(this.name, "/systems"), { system, role: "test" });
        if (texts) await this.calls.post(draft(this.name, "/texts"), { texts, sure: false });
        history.pushState(null, "", `${location.pathname}?${new URLSearchParams({ campaign: state.name })}`); // Gradio sets a base
        return await this.begin();
      } catch (error) {
        return this.showMessage(error.message, "error");
      }
    };
    this.page.replaceChildren(...newTest(offer, this.voices, taken, create));
  }

  // --- a draft ----------------------------------------------------------------------------------

  draw(state) {
    this.showMessage();
    this.state = state;
    this.settings = state.settings;
    this.seenVersion = state.seen;
    this.root.dataset.stage = state.state;
    document.title = `${state.name} · ${document.title.split(" · ").at(-1)}`;
    const changed = () => this.changed();
    const known = this.templateQuestions();
    this.texts = new TextList(this, this.settings, changed);
    this.parts = [
      new Questions(this.settings, state.kind, known, changed),
      new Systems(this, this.voices, this.terms),
      this.texts,
      new Raters(this, this.settings, changed),
    ];
    const rest = [
      words(this.settings, changed),
      new Checks(this.settings, changed).element,
      panel(this.settings, changed),
    ];
    this.saved = h("span", { class: "muted saved", role: "status", text: "All changes saved" });
    this.chip = h("span", { class: "state" });
    this.aside = h("aside", { class: "owner-card ready", "aria-label": "Ready to open" });
    this.dialog = h("dialog", { class: "owner-ask" });
    const head = h("header", { class: "edit-head" }, h("h1", { text: state.name }), this.chip, this.saved);
    const form = h(
      "fieldset",
      { class: "edit-form", disabled: state.state !== "draft" },
      h("legend", { class: "sr-only", text: "Settings" }),
      ...this.parts.map(({ element }) => element),
      ...rest,
    );
    this.page.replaceChildren(
      h("p", {}, h("a", { href: "./campaigns", text: "All listening tests" })),
      head,
      h("p", { class: "muted", text: `${state.kind_title}. ${state.about}` }),
      h("div", { class: "edit-columns" }, form, this.aside),
      this.dialog,
    );
    this.update(state);
  }

  /** Questions of the templates, those of the same kind first, each attribute once. */
  templateQuestions() {
    const sorted = [...this.templates].sort(
      (a, b) => Number(b.kind === this.state.kind) - Number(a.kind === this.state.kind),
    );
    const own = ["dcr", "ccr", "mushra", "p835"]; // the recommendation fixes their questions; no other kind uses them
    const fits = ({ kind }) => kind === this.state.kind || (!own.includes(kind) && !own.includes(this.state.kind));
    const every = sorted.filter(fits).flatMap(({ asks }) => asks.filter(({ id }) => id));
    return every.filter((one, k) => every.findIndex(({ id }) => id === one.id) === k);
  }

  /** Show the server's state of the draft, without touching fields the user may be editing. */
  update(state) {
    this.state = state;
    this.chip.textContent = this.chip.dataset.state = state.state;
    for (const part of this.parts) part.update(state);
    this.drawAside(state);
    clearTimeout(this.pollTimer);
    if (state.speaking && !state.speaking.over) this.pollTimer = setTimeout(() => this.poll(), POLL_MS);
    else if (this.opensOnceSpoken) {
      this.opensOnceSpoken = false;
      if (!state.unspoken && !state.not_ready.length) this.open();
    }
  }

  async poll() {
    try {
      this.update(await this.calls.get(draft(this.name)));
    } catch (error) {
      this.showStatus(error.message, "error");
      this.pollTimer = setTimeout(() => this.poll(), 5 * POLL_MS);
    }
  }

  drawAside(state) {
    const actions = {
      preview: () => this.preview(),
      download: () => this.download(),
      open: () => this.open(),
      speak: () => this.speakAndOpen(),
    };
    this.aside.replaceChildren(...readyCard(this.name, state, actions));
  }

  // --- saving -----------------------------------------------------------------------------------

  showStatus(text, level = "info") {
    this.saved.textContent = text;
    this.saved.dataset.level = level;
  }

  showSaving() {
    this.showStatus("Saving…");
  }

  changed() {
    clearTimeout(this.timer);
    this.showSaving();
    this.timer = setTimeout(() => this.save(), SAVE_MS);
  }

  /** Send the settings; resolves once the server has stored them. */
  async save() {
    clearTimeout(this.timer);
    this.timer = null;
    const error = await this.change("/settings", () => ({ settings: this.settings, seen: this.seenVersion }));
    this.isUnsaved = Boolean(error);
    if (error?.isTemporary) this.timer ??= setTimeout(() => this.save(), AGAIN_MS);
    return error;
  }

  /** Queue a change; resolves to an error or null. The caller handles error codes in `quiet`. */
  change(path, body = {}, { quiet = [] } = {}) {
    const work = async () => {
      try {
        const state = await this.calls.post(draft(this.name, path), typeof body === "function" ? body() : body);
        this.seenVersion = state.seen;
        if (this.texts.isTyping)
          this.showSaving(); // texts are not saved yet
        else this.showStatus(state.notes?.length ? `Saved. Note: ${state.notes.join(" ")}` : "All changes saved");
        this.update(state);
        return null;
      } catch (error) {
        if (!quiet.includes(error.code)) this.showStatus(`Not saved: ${error.message}`, "error");
        else this.showStatus("Not saved yet");
        return error;
      }
    };
    this.saving = this.saving.then(work);
    return this.saving;
  }

  /** Post a query about the saved draft; an error comes as `{error}`. */
  async query(path, body) {
    await this.settle();
    try {
      return await this.calls.post(draft(this.name, path), body);
    } catch (error) {
      return { error: error.message };
    }
  }

  /** Wait until all input is stored on the server. */
  async settle() {
    this.texts.flush();
    if (this.timer) this.save();
    await this.saving;
  }

  async upload(system, files, onStatus) {
    await this.settle();
    try {
      for (const [k, file] of files.entries()) {
        onStatus(`Sending ${k + 1} of ${files.length}: ${file.name}`);
        const where = new URLSearchParams({ campaign: this.name, system, file: file.name });
        await this.calls.json("POST", `sounds?${where}`, file, { "Content-Type": "application/octet-stream" });
      }
    } catch (error) {
      onStatus(`Not accepted: ${error.message}`);
      return false;
    }
    onStatus("Normalizing levels…");
    const error = await this.change("/sounds", {});
    onStatus(error ? `Not accepted: ${error.message}` : `${counted(files.length, "clip")} of ${system} added.`);
    return !error;
  }

  // --- preview and opening ----------------------------------------------------------------------

  async preview() {
    await this.settle();
    try {
      const preview = await this.calls.get(draft(this.name, "/preview"));
      const texts = await (await fetch(`${this.base}/rate/words.json`)).json();
      const sound = async (item, system) =>
        (
          await this.calls.call("GET", draft(this.name, `/sound?${new URLSearchParams({ item, system })}`))
        ).arrayBuffer();
      await new Preview(preview, texts, sound).open();
    } catch (error) {
      this.showStatus(error.message, "error");
    }
  }

  async download() {
    await this.settle();
    try {
      await download(await this.calls.call("GET", draft(this.name, "/settings.toml")), `${this.name}.toml`);
    } catch (error) {
      this.showStatus(error.message, "error");
    }
  }

  /** Let the voices speak what is missing, then ask whether to open the test. */
  async speakAndOpen() {
    await this.settle();
    this.opensOnceSpoken = true;
    if (await this.change("/speak")) this.opensOnceSpoken = false;
  }

  async open() {
    await this.settle();
    const { units, settings, sittings } = this.state;
    const text = `${counted(units, "screen")}, ${counted(settings.raters_per_stimulus, "rater")} each: ${counted(sittings, "rater")} if all finish. The test cannot be changed after that.`;
    if (!(await this.ask(`Open ${this.name} for raters?`, text, "Open it"))) return;
    try {
      await this.calls.post(`campaigns/${encodeURIComponent(this.name)}/state`, { state: "open" });
      await this.begin();
    } catch (error) {
      this.showStatus(error.message, "error");
    }
  }

  ask(question, text = "", yes = "Yes") {
    return askIn(this.dialog, question, text, "No", yes);
  }
}

/** Called by Gradio when the component is in the page. */
export function start(element, { props, base, server }) {
  const root = element.querySelector(".edit");
  if (root.isStarted) return;
  root.isStarted = true;
  const editor = new Editor(root, base, server, new Terms(props.terms));
  editor.begin();
  addEventListener("popstate", () => location.reload());
  addEventListener(
    "beforeunload",
    (event) => (editor.timer || editor.isUnsaved || editor.texts?.isTyping) && event.preventDefault(),
  );
}
