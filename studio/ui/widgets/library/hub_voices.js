// Voices from the Hugging Face Hub: what was pulled, with licence and revision; pull by name, verify, remove.

import { Calls } from "../owner/calls.js";
import { counted } from "../page/plurals.js";
import { button, h } from "../rate/dom.js";
import { Section } from "./section.js";

const POLL_MS = 700;
const megabytes = (bytes) => `${(bytes / 1e6).toLocaleString(undefined, { maximumFractionDigits: 1 })} MB`;

export class HubVoices extends Section {
  /** `confirm(question, text, yes)` asks the user. */
  constructor(server, confirm) {
    super();
    this.calls = new Calls(server, "library/");
    this.confirm = confirm;
    this.list = h("ul", { class: "hub-list", "aria-label": "Pulled from the hub" });
    this.none = h("p", { class: "muted", text: "No voice was pulled yet.", hidden: true });
    this.address = h("input", {
      type: "text",
      id: "hub-address",
      maxlength: 400,
      required: true,
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "owner/name or owner/name@revision",
    });
    this.name = h("input", {
      type: "text",
      id: "hub-name",
      maxlength: 80,
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "as published",
    });
    this.lookUp = h("button", { type: "submit", text: "Look it up" });
    this.form = h(
      "form",
      { class: "hub-form", on: { submit: (event) => this.look(event) } },
      h("div", { class: "field" }, h("label", { for: "hub-address", text: "Repository" }), this.address),
      h("div", { class: "field name" }, h("label", { for: "hub-name", text: "Name here" }), this.name),
      this.lookUp,
    );
    this.offer = h("div", { class: "hub-offer", hidden: true });
    this.bar = h("progress", { max: 1, value: 0, "aria-label": "Download" });
    this.barText = h("span", { class: "muted" });
    this.running = h(
      "div",
      { class: "hub-running", hidden: true },
      this.bar,
      this.barText,
      button("Stop", () => this.tried(() => this.calls.post("voices/stop"))),
    );
    this.element = h(
      "details",
      { class: "owner-card hub-voices", on: { toggle: () => this.element.open && this.load() } },
      h("summary", { text: "Voices from the hub" }),
      h("p", {
        class: "muted",
        text: "Voices that others published on the Hugging Face Hub. The studio speaks a new one after its next start.",
      }),
      this.notice,
      this.list,
      this.none,
      this.form,
      this.offer,
      this.running,
    );
  }

  load() {
    return this.tried(async () => this.show(await this.calls.get("voices")));
  }

  show({ voices, pull }) {
    this.list.replaceChildren(...voices.map((one) => this.row(one)));
    this.none.hidden = voices.length > 0;
    this.showPull(pull);
  }

  row(one) {
    const source = h("a", { href: /^https?:/.test(one.link) ? one.link : null, target: "_blank", rel: "noopener" });
    source.textContent = `${one.repo}@${one.revision?.slice(0, 12)}`;
    const facts = one.problem
      ? [h("p", { class: "problem", text: one.problem })]
      : [
          h("p", { text: one.title }),
          h("p", { class: "muted" }, `${one.licence} · ${megabytes(one.bytes)} · `, source),
          one.is_spoken ? null : h("p", { class: "muted", text: "Spoken after the next start." }),
        ];
    const verify = () =>
      this.tried(async () => {
        this.showMessage(`Verifying ${one.name} …`, "info");
        const { files } = await this.calls.post("voices/verify", { name: one.name });
        this.showMessage(`${one.name}: ${counted(files, "file")} unchanged since the pull.`, "info");
      });
    return h(
      "li",
      {},
      h("div", { class: "hub-facts" }, h("h2", { text: one.name }), ...facts),
      h(
        "div",
        { class: "actions" },
        one.problem ? null : button("Verify", verify, { "aria-label": `Verify ${one.name}` }),
        button("Remove", () => this.remove(one), { "aria-label": `Remove ${one.name}` }),
      ),
    );
  }

  remove({ name }) {
    return this.tried(async () => {
      const isSure = await this.confirm(`Remove “${name}”?`, "Its files are deleted from this machine.", "Remove");
      if (!isSure) return;
      await this.calls.post("voices/remove", { name });
      this.showMessage(`${name} is removed.`, "info");
      await this.load();
    });
  }

  // --- pull -------------------------------------------------------------------------------------

  async look(event) {
    event.preventDefault();
    this.lookUp.disabled = true;
    this.offer.hidden = true;
    this.showMessage("Asking the hub …", "info");
    await this.tried(async () => {
      const wanted = { address: this.address.value.trim(), name: this.name.value.trim() };
      const offer = await this.calls.post("voices/look", wanted);
      this.showMessage();
      this.showOffer(offer);
    });
    this.lookUp.disabled = false;
  }

  showOffer(offer) {
    const facts = [
      ["Licence", offer.licences.join("; the card says ")],
      ["Learned from", offer.learned_from],
      ["Size", megabytes(offer.bytes)],
      ["Commit", offer.address],
    ];
    if (offer.refused.length)
      facts.push(["Left out", `${offer.refused.join(", ")} (pickles, which can run code when they are loaded)`]);
    this.speakers = [];
    const accept = button("Accept the licence and pull", () => this.pull(offer), { class: "primary" });
    this.offer.replaceChildren(
      h("h2", { text: `${offer.name}: ${offer.title}` }),
      h("dl", {}, ...facts.flatMap(([name, text]) => [h("dt", { text: name }), h("dd", { text })])),
      offer.speakers.length ? this.speakerChoice(offer.speakers, offer.most_speakers) : "",
      h(
        "div",
        { class: "actions" },
        accept,
        button("Cancel", () => this.leave()),
      ),
    );
    this.offer.hidden = false;
    accept.focus();
  }

  /** A field that completes the paths of speakers, and those that were chosen. */
  speakerChoice(paths, most) {
    const known = new Set(paths);
    const field = h("input", {
      type: "text",
      id: "hub-speaker",
      list: "hub-speakers",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "a part of its path",
    });
    const chosen = h("ul", { class: "hub-list", "aria-label": "Chosen speakers" });
    const show = () =>
      chosen.replaceChildren(
        ...this.speakers.map((path) => {
          const leave = () => {
            this.speakers = this.speakers.filter((one) => one !== path);
            show();
            field.focus();
          };
          return h("li", {}, h("span", { text: path }), button("Remove", leave, { "aria-label": `Remove ${path}` }));
        }),
      );
    field.addEventListener("input", () => {
      if (!known.has(field.value) || this.speakers.length >= most) return;
      if (!this.speakers.includes(field.value)) this.speakers.push(field.value);
      field.value = "";
      show();
    });
    return h(
      "div",
      { class: "field" },
      h("label", { for: "hub-speaker", text: `Speakers: up to ${most} of ${paths.length}` }),
      field,
      h("datalist", { id: "hub-speakers" }, ...paths.map((path) => h("option", { value: path }))),
      h("p", { class: "muted", text: "Without a choice, the speaker of Kyutai's own examples is pulled." }),
      chosen,
    );
  }

  leave() {
    this.offer.hidden = true;
    this.address.focus();
  }

  pull({ address, name }) {
    this.offer.hidden = true;
    this.wasRunning = true;
    const wanted = { address, name, accepts_licence: true, speakers: this.speakers };
    return this.tried(async () => this.showPull((await this.calls.post("voices/pull", wanted)).pull));
  }

  /** Show a pull's progress, and ask again while it runs; its end is reported once. */
  showPull(pull) {
    clearTimeout(this.timer);
    const isRunning = Boolean(pull?.is_running);
    this.running.hidden = !isRunning;
    this.form.hidden = isRunning;
    if (isRunning) {
      this.wasRunning = true;
      this.bar.max = Math.max(1, pull.total_bytes);
      this.bar.value = pull.done_bytes;
      const done = `${megabytes(pull.done_bytes)} of ${megabytes(pull.total_bytes)}`;
      this.barText.textContent = pull.total_bytes ? done : "Starting …";
      this.timer = setTimeout(() => this.load(), POLL_MS);
    } else if (this.wasRunning && pull) {
      this.wasRunning = false;
      if (pull.error) this.showMessage(`${pull.error.charAt(0).toUpperCase()}${pull.error.slice(1)}`);
      else this.showMessage(`${pull.voice} is pulled.`, "info");
      if (pull.voice) this.form.reset();
    }
  }
}
