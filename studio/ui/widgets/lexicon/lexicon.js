// The Lexicon page: how words are read. Add, hear, delete, import and export.

import { Calls, download } from "../owner/calls.js";
import { counted } from "../page/plurals.js";
import { ask, button, h, showStatus } from "../rate/dom.js";

class Lexicon {
  constructor(root, server) {
    /** @type {AudioContext | null} */
    this.context = null;
    this.root = root;
    this.calls = new Calls(server, "lexicon/");
    this.speech = new Calls(server, "");
    this.status = root.querySelector(".status");
    this.draw();
  }

  draw() {
    this.word = h("input", { type: "text", id: "lexicon-word", maxlength: 40, required: true, autocomplete: "off" });
    this.reading = h("input", {
      type: "text",
      id: "lexicon-reading",
      maxlength: 200,
      required: true,
      autocomplete: "off",
    });
    this.word.spellcheck = this.reading.spellcheck = false;
    const form = h(
      "form",
      { class: "owner-card", "aria-label": "Add a word", on: { submit: (event) => this.add(event) } },
      field("Word", this.word),
      field("Spoken as: /IPA/, or words", this.reading),
      h("button", { type: "submit", class: "primary", text: "Add" }),
    );
    this.voice = h("select", { id: "lexicon-voice" });
    this.file = h("input", {
      type: "file",
      accept: ".txt,text/plain",
      "aria-label": "Import a file",
      id: "lexicon-file",
    });
    this.file.addEventListener("change", () => this.importFile());
    const actions = h(
      "div",
      { class: "actions" },
      h("label", { class: "field", for: "lexicon-voice" }, h("span", { text: "Voice to hear" }), this.voice),
      h("label", { class: "file" }, this.file, h("span", { class: "button", text: "Import a file" })),
      button("Export", () => this.run(async () => download(await this.calls.call("GET", "file"), "lexicon.txt"))),
    );
    this.count = h("p", { class: "muted", role: "status" });
    this.list = h("ul", { "aria-label": "Words" });
    this.dialog = h("dialog", { class: "owner-ask" });
    this.root.querySelector(".lexicon-page").replaceChildren(
      h("h1", { text: "Lexicon", tabindex: -1 }),
      h("p", {
        class: "muted",
        text: "How words are read, from the next text on. IPA stands between slashes, like /dʒɪf/; voices that read letters ignore it. Replacement words work with every voice.",
      }),
      form,
      actions,
      this.count,
      this.list,
      this.dialog,
    );
  }

  async open() {
    await this.run(async () => {
      const { voices } = await this.speech.get("v1/audio/voices");
      this.voice.replaceChildren(...voices.map(({ id }) => h("option", { value: id, text: id })));
      this.show(await this.calls.get("entries"));
    });
    this.root.dataset.stage = "open";
  }

  show({ entries }) {
    this.count.textContent = entries.length ? counted(entries.length, "word") : "No word yet.";
    this.list.replaceChildren(...entries.map((one) => this.row(one)));
  }

  row({ word, reading }) {
    return h(
      "li",
      { data: { word } },
      h("b", { text: word }),
      h("span", { text: reading }),
      h(
        "div",
        { class: "actions" },
        button("Hear", (event) => this.hear(word, event.currentTarget), { "aria-label": `Hear ${word}` }),
        button("Change", () => this.change(word, reading), { "aria-label": `Change ${word}` }),
        button("Delete", () => this.remove(word), { "aria-label": `Delete ${word}` }),
      ),
    );
  }

  /** Do something; an error is shown. Whether it succeeded. */
  async run(work) {
    this.tell();
    try {
      await work();
      return true;
    } catch (error) {
      this.tell(error.message, "error");
      return false;
    }
  }

  tell(text = "", level = "info") {
    showStatus(this.status, text, level);
  }

  async add(event) {
    event.preventDefault();
    const [word, reading] = [this.word.value.trim(), this.reading.value.trim()];
    if (!(await this.run(async () => this.show(await this.calls.post("entries", { word, reading }))))) return;
    event.target.reset();
    this.word.focus();
    this.tell(`${word} is added.`);
  }

  change(word, reading) {
    this.word.value = word;
    this.reading.value = reading;
    this.reading.focus();
  }

  async remove(word) {
    if (!(await ask(this.dialog, `Delete ${word}?`, "It is read as before.", "Cancel", "Delete it"))) return;
    if (await this.run(async () => this.show(await this.calls.post("remove", { word }))))
      this.tell(`${word} is deleted.`);
  }

  async hear(word, pressed) {
    pressed.disabled = true;
    this.context ??= new AudioContext(); // at the first click: a browser allows it then
    const context = this.context;
    context.resume();
    await this.run(async () => {
      const body = { input: word, voice: this.voice.value, response_format: "flac", markup: "plain" };
      const headers = { "Content-Type": "application/json" };
      const answer = await this.speech.call("POST", "v1/audio/speech", JSON.stringify(body), headers).catch((error) => {
        throw new Error(`${word} cannot be heard: ${error.message}`);
      });
      const source = new AudioBufferSourceNode(context, {
        buffer: await context.decodeAudioData(await answer.arrayBuffer()),
      });
      source.connect(context.destination);
      source.start();
      this.tell(`${word}, spoken by ${this.voice.value}.`);
    });
    pressed.disabled = false;
  }

  async importFile() {
    const [file] = this.file.files;
    if (!file) return;
    await this.run(async () => {
      const report = await this.calls.json("POST", "import", file, { "Content-Type": "application/octet-stream" });
      this.show(report);
      this.tell(`${counted(report.imported, "word")} imported.`);
    });
    this.file.value = "";
  }
}

const field = (text, input) => h("label", { class: "field", for: input.id }, h("span", { text }), input);

export function start(element, { server }) {
  return new Lexicon(element.querySelector(".lexicon"), server).open();
}
