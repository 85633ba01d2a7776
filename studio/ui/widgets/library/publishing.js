// Publish a voice of this studio on the Hugging Face Hub.

import { Calls } from "../owner/calls.js";
import { h } from "../rate/dom.js";
import { Section } from "./section.js";

const POLL_MS = 700;

export class Publishing extends Section {
  /** `confirm(question, text, yes)` asks the user. */
  constructor(server, confirm) {
    super();
    this.calls = new Calls(server, "library/voices");
    this.confirm = confirm;
    this.voice = h("select", { id: "publish-voice", on: { change: () => this.describe() } });
    this.repo = h("input", {
      type: "text",
      id: "publish-repo",
      maxlength: 400,
      required: true,
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "owner/name",
    });
    this.private = h("input", { type: "checkbox", id: "publish-private" });
    this.facts = h("p", { class: "muted" });
    this.none = h("p", { class: "muted", text: "No voice here can be published: all were pulled from the hub." });
    this.token = h("p", {
      class: "problem",
      text: "The server has no token for the hub. Set HF_TOKEN to one that may write, and start the studio again.",
    });
    this.form = h(
      "form",
      { class: "hub-form", "aria-label": "Publish a voice", on: { submit: (event) => this.send(event) } },
      h("div", { class: "field name" }, h("label", { for: "publish-voice", text: "Voice to publish" }), this.voice),
      h("div", { class: "field" }, h("label", { for: "publish-repo", text: "Publish as" }), this.repo),
      h("label", { class: "consent", for: "publish-private" }, this.private, h("span", { text: "Private" })),
      h("button", { type: "submit", text: "Publish" }),
    );
    this.bar = h("progress", { "aria-label": "Upload" });
    this.running = h("div", { class: "hub-running" }, this.bar, h("span", { class: "muted", text: "Uploading …" }));
    this.element = h(
      "details",
      { class: "owner-card hub-voices", on: { toggle: () => this.element.open && this.load() } },
      h("summary", { text: "Publish a voice" }),
      h("p", {
        class: "muted",
        text: "Uploads a voice's files to the Hugging Face Hub, with a description made from its card. Speakers added from recordings are never uploaded.",
      }),
      this.notice,
      this.none,
      this.token,
      this.form,
      this.facts,
      this.running,
    );
    for (const part of [this.none, this.token, this.form, this.facts, this.running]) part.hidden = true; // until load
  }

  load() {
    return this.tried(async () => {
      try {
        this.show(await this.calls.get("/push"));
      } finally {
        clearTimeout(this.timer);
        if (!this.running.hidden) this.timer = setTimeout(() => this.load(), POLL_MS); // also after a failed request
      }
    });
  }

  /** Show the choice and the newest upload, and ask again while it runs; its end is reported once. */
  show({ voices, has_token, push }) {
    const chosen = this.voice.value;
    const isRunning = Boolean(push?.is_running);
    this.voices = voices;
    this.voice.replaceChildren(...voices.map(({ name }) => h("option", { value: name, text: name })));
    if (voices.some(({ name }) => name === chosen)) this.voice.value = chosen;
    this.none.hidden = voices.length > 0;
    this.token.hidden = has_token || !voices.length;
    this.form.hidden = isRunning || !has_token || !voices.length;
    this.running.hidden = !isRunning;
    this.describe();
    if (!isRunning && this.wasRunning && push) this.showEnd(push);
    this.wasRunning = isRunning;
  }

  describe() {
    const voice = this.voices.find(({ name }) => name === this.voice.value);
    this.facts.hidden = this.form.hidden;
    this.facts.textContent = voice
      ? `${voice.title}. Licence: ${voice.licence}. Learned from: ${voice.learned_from}`
      : "";
  }

  showEnd({ voice, repo, link, error }) {
    if (error) return this.showMessage(`${error.charAt(0).toUpperCase()}${error.slice(1)}`);
    this.showMessage(`${voice} is published. `, "info");
    this.notice.append(
      h("a", { href: /^https?:/.test(link) ? link : null, target: "_blank", rel: "noopener", text: repo }),
    );
  }

  send(event) {
    event.preventDefault();
    const wanted = { voice: this.voice.value, repo: this.repo.value.trim(), private: this.private.checked };
    return this.tried(async () => {
      const who = wanted.private ? "people that you admit" : "everybody";
      const text = `Its files will be readable by ${who}; files of an earlier version there are replaced.`;
      if (!(await this.confirm(`Publish “${wanted.voice}” as ${wanted.repo}?`, text, "Publish"))) return;
      this.showMessage();
      await this.calls.post("/push", wanted);
      this.wasRunning = true;
      await this.load();
    });
  }
}
