// The history of the Live page: the last utterances, played from this browser without the server.

import { t } from "../../page/translate.js";
import { h } from "../../rate/dom.js";
import { save } from "../../sound/recording.js";
import { describe, entryOf, fileName, LIMITS, pagesOf, traceToken } from "./entries.js";
import { MemoryStore, newId, openStore } from "./store.js";

const EMPTY = t("The last {count} utterances will be listed here. They stay in this browser.", {
  count: LIMITS.entries,
});
const NOT_LASTING = t("This browser stores nothing more for this page: the newest entries last until it is closed.");
const GONE = t("This sound was removed meanwhile, in another tab.");
const LABEL_CHARS = 60;

const blobOf = (wav) => new Blob([wav], { type: "audio/wav" });

export class History {
  /** `on`: stopAndStore(), before a sound plays; volume(), from 0 to 1. */
  constructor(root, server, on) {
    this.server = server;
    this.on = on;
    this.section = root.querySelector(".history");
    this.clearButton = h("button", { type: "button", class: "quiet", hidden: true });
    this.note = h("p", { class: "sub", role: "status" });
    this.list = h("ol", { "aria-label": t("Last utterances, newest first") });
    this.title = h("h2", { tabindex: "-1", text: t("History") });
    this.section.append(h("div", { class: "history-head" }, this.title, this.note, this.clearButton), this.list);
    this.clearButton.addEventListener("click", () => this.pressClear());
    this.clearButton.addEventListener("blur", () => this.askToClear(false));
    this.rows = new Map(); // by id: {entry, store, item}
    this.recent = new Map(); // entries of this visit, by utterance
    this.traces = new Map(); // tokens of this visit, by utterance
    this.draft = undefined; // the recording so far of the utterance that plays
    this.draftId = undefined; // of the entry of a draft that is stored
    this.audio = new Audio();
    this.audio.addEventListener("ended", () => this.stop());
    this.escape = (e) => e.key === "Escape" && this.stop();
    this.refresh = () => document.visibilityState === "visible" && this.enqueue(() => this.update());
    this.keep = () => this.keepDraft();
    // Before the page is left, and again when it is: a browser may drop the second, which comes when the page ends.
    addEventListener("beforeunload", this.keep);
    document.addEventListener("keydown", this.escape);
    document.addEventListener("visibilitychange", this.refresh); // another tab may have added entries
    this.work = openStore().then((store) => {
      this.store = store;
    });
    this.enqueue(() => this.update());
  }

  /** Run changes of the store one after another. */
  enqueue(change) {
    this.work = this.work.then(change).catch(() => this.fallBack());
    return this.work;
  }

  /** The browser stores nothing more: keep later entries in memory. */
  fallBack() {
    this.store = new MemoryStore();
    this.show([...this.rows.values()].map(({ entry }) => entry));
  }

  /** Add a recording of the Worker. */
  add(recording) {
    const { utterance } = recording;
    const entry = entryOf(recording, Date.now(), this.traces.get(utterance) ?? "");
    this.recent.set(utterance, entry);
    if (this.draftId) {
      entry.id = this.draftId; // the page was not left: replace the draft
      if (this.playing?.id === entry.id) this.stop();
      this.rows.get(entry.id)?.item.remove();
      this.rows.delete(entry.id);
    }
    this.draft = this.draftId = undefined;
    this.enqueue(async () => {
      try {
        entry.id = await this.store.add(entry, recording.wav);
      } catch {
        this.fallBack();
        entry.id = await this.store.add(entry, recording.wav);
      }
      await this.update();
    });
  }

  /** The recording so far of the utterance that plays; null if it has become too long to be stored. */
  setDraft(recording) {
    if (recording?.utterance !== this.draft?.utterance) this.draftId = undefined;
    this.draft = recording ?? undefined;
  }

  /** Store what was heard of the utterance that plays, since the page may be left. */
  keepDraft() {
    if (!this.draft) return;
    this.draftId ??= newId();
    const entry = { ...entryOf(this.draft, Date.now(), ""), id: this.draftId };
    this.store?.addAtOnce(entry, this.draft.wav).catch(() => {});
  }

  /** The server has stored the trace of an utterance. */
  setTrace(utterance, url) {
    const token = traceToken(url);
    this.traces.set(utterance, token);
    const entry = this.recent.get(utterance);
    if (!entry) return;
    entry.trace = token;
    this.enqueue(async () => {
      await this.store.update(entry);
      this.setLinks(this.rows.get(entry.id)?.item, entry);
    });
  }

  async update() {
    this.show(await this.store.list());
  }

  /** Show the entries, given oldest first; rows that stay are not replaced, since one may have the focus. */
  show(entries) {
    const ids = new Set(entries.map(({ id }) => id));
    for (const [id, { item }] of this.rows) {
      if (ids.has(id)) continue;
      if (this.playing?.id === id) this.stop();
      item.remove();
      this.rows.delete(id);
    }
    for (const entry of entries) {
      if (this.rows.has(entry.id)) continue;
      const row = { entry, store: this.store, item: this.row(entry) };
      this.rows.set(entry.id, row);
      this.list.prepend(row.item);
    }
    this.list.hidden = this.clearButton.hidden = !this.rows.size;
    this.note.textContent = !this.store.isLasting ? NOT_LASTING : this.rows.size ? "" : EMPTY;
    this.askToClear(false);
  }

  row(entry) {
    const text = entry.text.trim().replace(/\s+/g, " ");
    const short = text.length > LABEL_CHARS ? `${text.slice(0, LABEL_CHARS)}…` : text;
    const press = (name, label, action) =>
      h("button", {
        type: "button",
        class: "quiet",
        text: label,
        data: { history: name },
        "aria-label": `${label}: ${short}`,
        on: { click: action },
      });
    const item = h(
      "li",
      {},
      h("p", { class: "history-text", lang: "en", title: text.slice(0, 1000), text: text.slice(0, 1000) }),
      h("p", { class: "sub", text: describe(entry) }),
      h(
        "div",
        { class: "history-do" },
        press("play", t("Play"), () => this.toggle(entry)),
        press("download", t("Download"), () => this.download(entry)),
        h("a", {
          class: "quiet",
          text: t("Inspect"),
          data: { history: "inspect" },
          "aria-label": `${t("Inspect")}: ${short}`,
        }),
        h("a", {
          class: "quiet",
          text: t("Compare"),
          data: { history: "compare" },
          "aria-label": `${t("Compare")}: ${short}`,
        }),
      ),
    );
    this.setLinks(item, entry);
    return item;
  }

  setLinks(item, entry) {
    const pages = pagesOf(entry);
    for (const name of ["inspect", "compare"]) {
      const link = item?.querySelector(`[data-history="${name}"]`);
      if (!link) return;
      link.hidden = !pages;
      if (pages) link.href = new URL(pages[name], this.server).href;
    }
  }

  /** The WAV file of an entry; undefined if another tab removed it. */
  async sound({ id }) {
    const wav = await this.rows.get(id)?.store.sound(id);
    if (!wav) this.note.textContent = GONE;
    return wav;
  }

  /** The WAV file of an utterance of this visit; undefined if it is not in the history. */
  async soundOf(utterance) {
    const id = this.recent.get(utterance)?.id;
    return this.rows.get(id)?.store.sound(id);
  }

  async toggle(entry) {
    const wasPlaying = this.playing?.id === entry.id;
    this.stop();
    if (wasPlaying) return;
    this.playing = entry;
    const wav = await this.sound(entry);
    if (!wav || this.playing !== entry) return;
    this.on.stopAndStore();
    this.audio.src = URL.createObjectURL(blobOf(wav));
    this.audio.volume = this.on.volume();
    this.label(entry.id, t("Stop"));
    await this.audio.play().catch(() => this.stop()); // stopped before it began
  }

  stop() {
    if (!this.playing) return;
    this.audio.pause();
    URL.revokeObjectURL(this.audio.src);
    this.label(this.playing.id, t("Play"));
    this.playing = null;
  }

  label(id, text) {
    const button = this.rows.get(id)?.item.querySelector('[data-history="play"]');
    if (!button) return;
    button.setAttribute("aria-label", text + button.getAttribute("aria-label").slice(button.textContent.length));
    button.textContent = text;
  }

  async download(entry) {
    const wav = await this.sound(entry);
    if (wav) save(blobOf(wav), fileName(entry.text));
  }

  /** Whether the next press of the button clears the history. */
  askToClear(isAsking) {
    this.isAsking = isAsking;
    this.clearButton.textContent = isAsking ? t("Delete all {count}?", { count: this.rows.size }) : t("Clear history");
  }

  pressClear() {
    if (!this.isAsking) return this.askToClear(true);
    this.stop();
    this.title.focus(); // the button disappears
    const stores = new Set([this.store, ...Array.from(this.rows.values(), ({ store }) => store)]);
    return this.enqueue(async () => {
      for (const store of stores) await store.clear();
      this.show([]);
    });
  }

  dispose() {
    this.keepDraft();
    removeEventListener("beforeunload", this.keep);
    this.stop();
    document.removeEventListener("keydown", this.escape);
    document.removeEventListener("visibilitychange", this.refresh);
  }
}
