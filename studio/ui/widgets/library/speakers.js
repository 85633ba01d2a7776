// Speakers that are added to a voice from a recording, with the speaker's consent: list, add, remove.

import { Calls } from "../owner/calls.js";
import { button, h } from "../rate/dom.js";
import { RecordingField } from "./recording_field.js";
import { Section } from "./section.js";

export class Speakers extends Section {
  /** `confirm(question, text, yes)` asks the user; `base` is the address of the scripts. */
  constructor(server, base, confirm) {
    super();
    this.server = server;
    this.calls = new Calls(server, "library/speakers");
    this.confirm = confirm;
    this.list = h("ul", { class: "hub-list", "aria-label": "Added speakers" });
    this.intro = h("p", { class: "muted" });
    this.limits = h("p", { class: "limits" });
    this.none = h("p", { class: "muted", text: "None of the installed voices supports added speakers.", hidden: true });
    this.recording = new RecordingField(
      base,
      () => this.check(),
      (text) => this.showMessage(text),
    );
    this.element = h(
      "details",
      {
        class: "owner-card hub-voices speakers",
        id: "speakers",
        on: { toggle: () => this.element.open && this.load() },
      },
      h("summary", { text: "Speakers from a recording" }),
      this.intro,
      this.limits,
      this.notice,
      this.list,
      this.none,
      this.makeForm(),
    );
  }

  makeForm() {
    const line = (id, maxlength, more = {}) =>
      h("input", { type: "text", id, maxlength, autocomplete: "off", ...more, on: { input: () => this.check() } });
    const field = (text, input, hint) => h("div", { class: "field" }, h("label", { for: input.id, text }), input, hint);
    const tick = (id, text) => h("label", { class: "consent", for: id }, this[id], h("span", { text }));
    this.voice = h("select", { id: "speaker-voice", on: { change: () => this.check() } });
    this.name = line("speaker-name", 40, { spellcheck: "false" });
    this.text = h("textarea", { id: "speaker-text", rows: 3, maxlength: 500, on: { input: () => this.check() } });
    this.hint = h("small", { class: "muted" });
    this.by = line("speaker-by", 200);
    this.consent = h("input", { type: "checkbox", id: "consent", on: { change: () => this.check() } });
    this.keep = h("input", { type: "checkbox", id: "keep" });
    this.add = h("button", { type: "submit", class: "primary", text: "Add speaker", disabled: true });
    this.missing = h("span", { class: "muted", role: "status" });
    this.consentText = h("span");
    this.form = h(
      "form",
      { class: "speaker-form", "aria-label": "Add a speaker", on: { submit: (event) => this.send(event) } },
      h("div", { class: "pair" }, field("Added to", this.voice), field("Name of the speaker", this.name)),
      field("Read this aloud, or write what your recording says", this.text, this.hint),
      this.recording.element,
      h("label", { class: "consent", for: "consent" }, this.consent, this.consentText),
      field("Who confirms that, and how (optional; stored with the speaker)", this.by),
      tick("keep", "Also store the recording. Otherwise only what the voice uses and the SHA-256 are stored."),
      h("div", { class: "actions" }, this.add, this.missing),
    );
    return this.form;
  }

  /** Open the section where the address names it. */
  openIfNamed() {
    if (location.hash !== "#speakers") return;
    this.element.open = true;
    this.element.scrollIntoView();
  }

  load() {
    return this.tried(async () => this.show(await this.calls.get("")));
  }

  show(state) {
    this.state = state;
    this.intro.textContent =
      `You need ${state.min_s} to ${state.max_s} seconds of one person's speech, and that person's consent. ` +
      "The speaker appears on the Live page at once. Its speech is marked as synthetic, with the date of the consent.";
    this.limits.textContent = state.limits;
    this.consentText.textContent = `${state.consent}.`;
    const chosen = this.voice.value;
    this.voice.replaceChildren(...state.voices.map(({ name, title }) => h("option", { value: name, text: title })));
    if (state.voices.some(({ name }) => name === chosen)) this.voice.value = chosen;
    this.none.hidden = state.voices.length > 0;
    this.form.hidden = !state.voices.length;
    if (!this.text.value) this.text.value = state.sentence;
    this.list.replaceChildren(...state.speakers.map((one) => this.row(one)));
    this.check();
  }

  row(one) {
    const address = `${one.voice}:${one.name}`;
    const by = one.consent_by ? ` (${one.consent_by})` : "";
    return h(
      "li",
      {},
      h(
        "div",
        { class: "hub-facts" },
        h("h2", { text: address }),
        h("p", {
          class: "muted",
          text: `${one.length_s.toFixed(1)} s of speech · consent confirmed ${one.consent_at.slice(0, 10)}${by}`,
        }),
      ),
      h(
        "div",
        { class: "actions" },
        h("a", { class: "button", href: this.live(one), text: "Hear it", "aria-label": `Hear ${address}` }),
        button("Remove", () => this.remove(one), { "aria-label": `Remove ${address}` }),
      ),
    );
  }

  live({ voice, name }) {
    return `${this.server}?${new URLSearchParams({ voice, speaker: name })}`;
  }

  needsText() {
    return this.state?.voices.find(({ name }) => name === this.voice.value)?.needs_text ?? true;
  }

  /** Say what is missing; nothing can be sent without the consent. */
  check() {
    const missing = [
      this.recording.file ? "" : "a recording",
      this.name.value.trim() ? "" : "a name",
      this.text.value.trim() || !this.needsText() ? "" : "its text",
      this.consent.checked ? "" : "the consent",
    ].filter(Boolean);
    const used = this.needsText() ? "The first seconds are used." : "All of it is used; the voice needs no text.";
    this.hint.textContent = `One person, in a quiet room, in English. ${used}`;
    this.missing.textContent = missing.length ? `Missing: ${missing.join(", ")}.` : "";
    this.add.disabled = missing.length > 0 || this.isSending;
  }

  remove({ voice, name }) {
    return this.tried(async () => {
      const text = "The speaker's data and its recording, if stored, are deleted. Saved utterances are kept.";
      if (!(await this.confirm(`Remove “${voice}:${name}”?`, text, "Remove"))) return;
      this.show(await this.calls.post("/remove", { voice, name }));
      this.showMessage(`${name} is removed.`, "info");
    });
  }

  async send(event) {
    event.preventDefault();
    if (this.add.disabled) return;
    const { file } = this.recording;
    if (file.size > this.state.max_bytes)
      return this.showMessage(`The file is larger than ${this.state.max_bytes / 1e6} MB.`);
    const [voice, name] = [this.voice.value, this.name.value.trim()];
    this.isSending = true;
    this.check();
    this.showMessage("Checking the recording …", "info");
    await this.tried(async () => {
      const headers = {
        "Content-Type": "application/octet-stream",
        "X-Studio-Voice": encodeURIComponent(voice),
        "X-Studio-Name": encodeURIComponent(name),
        "X-Studio-Text": encodeURIComponent(this.text.value.trim().replace(/\s+/g, " ")),
        "X-Studio-Consent": this.consent.checked ? "given" : "",
        "X-Studio-Consent-By": encodeURIComponent(this.by.value.trim()),
        "X-Studio-Keep": String(this.keep.checked),
      };
      const state = await this.calls.json("POST", "/add", await file.arrayBuffer(), headers);
      this.form.reset();
      this.recording.clear();
      this.show(state);
      const { added, recording } = state;
      const steps = recording.steps.join(", ");
      this.showMessage(
        `${voice}:${added.name} is added, from ${added.length_s.toFixed(1)} s. The recording was cleaned: ${steps}.`,
        "info",
      );
    });
    this.isSending = false;
    this.check();
  }
}
