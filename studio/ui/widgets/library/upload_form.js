// Upload form: takes chosen or dropped files one by one, with text and title.

import { button, h } from "../rate/dom.js";

const MAX_MB = 64;
const RIFF = "RIFF";

export class UploadForm {
  /** `send(file, text, title)` uploads a file and resolves to an error or null. */
  constructor(send) {
    this.send = send;
    this.waiting = [];
    this.choice = h("input", {
      type: "file",
      id: "library-file",
      class: "sr-only",
      multiple: true,
      accept: ".trace,.wav,audio/wav,application/zip",
      on: { change: () => this.chosen() },
    });
    this.invite = h(
      "p",
      { class: "invite" },
      h("label", { class: "button", for: "library-file", text: "Add files" }),
      h("span", { class: "muted", text: "Traces, or WAV files with their text. You can also drop them on this page." }),
    );
    this.form = h("form", {
      class: "note",
      "aria-label": "Add a file",
      hidden: true,
      on: { submit: (event) => this.submit(event) },
    });
    this.element = h("section", { class: "adding", "aria-label": "Add" }, this.choice, this.invite, this.form);
  }

  catchDrops(page) {
    for (const name of ["dragover", "dragleave", "drop"]) {
      page.addEventListener(name, (event) => {
        event.preventDefault();
        page.classList.toggle("over", name === "dragover" && !this.element.closest("[hidden]"));
        if (name === "drop" && !this.element.closest("[hidden]")) this.take([...event.dataTransfer.files]);
      });
    }
  }

  chosen() {
    this.take([...this.choice.files]);
    this.choice.value = "";
  }

  take(files) {
    const isIdle = !this.waiting.length;
    this.waiting.push(...files);
    if (isIdle) this.next();
  }

  /** Show the form for the first waiting file. */
  async next() {
    const [file] = this.waiting;
    this.form.hidden = !file;
    if (!file) return this.choice.focus();
    const isWav = (await file.slice(0, RIFF.length).text()) === RIFF;
    this.text = isWav ? h("textarea", { id: "library-says", rows: 2, maxlength: 4000 }) : null;
    this.title = h("input", { type: "text", id: "library-title", maxlength: 200, autocomplete: "off" });
    this.notice = h("p", { class: "owner-notice", data: { level: "error" }, role: "alert", hidden: true });
    const field = (text, input) => h("div", { class: "field" }, h("label", { for: input.id, text }), input);
    const more = this.waiting.length - 1;
    const actions = h(
      "div",
      { class: "actions" },
      h("button", { type: "submit", class: "primary", text: "Add to library" }),
      button(more ? "Skip" : "Cancel", () => this.done()),
    );
    this.form.replaceChildren(
      h("h2", { text: more ? `${file.name}, and ${more} more` : file.name }),
      ...(this.text ? [field("Spoken text", this.text)] : []),
      field("Title (optional)", this.title),
      this.notice,
      actions,
    );
    return (this.text ?? this.title).focus();
  }

  async submit(event) {
    event.preventDefault();
    const [file] = this.waiting;
    if (file.size > MAX_MB * 1e6)
      return this.showError(`${file.name} is larger than ${MAX_MB} MB; use studio library add instead.`);
    const error = await this.send(file, this.text?.value.trim() ?? "", this.title.value.trim());
    return error ? this.showError(error.message) : this.done();
  }

  showError(text) {
    this.notice.textContent = text;
    this.notice.hidden = !text;
  }

  done() {
    this.waiting.shift();
    this.next();
  }
}
