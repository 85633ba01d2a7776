// Other people's systems: state and last failure of each; test, add and remove those with an address.

import { button, h } from "../rate/dom.js";
import { Section } from "./section.js";

const FIELDS = [
  {
    name: "name",
    text: "Name",
    hint: "a-z, 0-9 and -",
    required: true,
    maxlength: 40,
    pattern: "[a-z][a-z0-9\\-]{0,39}",
  },
  { name: "url", text: "Address", hint: "https://… or wss://…", required: true, maxlength: 2000 },
  { name: "voice", text: "Voice", maxlength: 80 },
  { name: "model", text: "Model", maxlength: 200 },
  {
    name: "key_env",
    text: "Variable of its key",
    hint: "an environment variable of the server that ends in _API_KEY",
    maxlength: 100,
  },
  { name: "dialect", text: "Dialect", hint: "of a realtime socket: riva, sglang, vllm or nari", maxlength: 40 },
  { name: "licence", text: "Licence of its speech", maxlength: 200 },
];

// Kinds as the page names them.
const KINDS = {
  studio: "Another studio",
  openai: "OpenAI-compatible server",
  realtime: "Realtime socket",
  elevenlabs: "ElevenLabs",
  "elevenlabs-multi": "ElevenLabs, many utterances on one socket",
  cartesia: "Cartesia",
  deepgram: "Deepgram",
  kyutai: "Kyutai",
  command: "Program",
  lines: "Program that takes text while it speaks",
  python: "Python function",
  folder: "Folder of sounds",
};
const kindTitle = (kind) => KINDS[kind] ?? kind;

export class Systems extends Section {
  /** `calls` has the prefix `systems`; `confirm(question, text, yes)` asks the user. */
  constructor(calls, confirm) {
    super();
    this.calls = calls;
    this.confirm = confirm;
    this.list = h("ul", { class: "assignments-list", "aria-label": "Systems" });
    this.kind = h("select", { id: "system-kind" });
    this.fields = Object.fromEntries(
      FIELDS.map(({ name, required, maxlength, pattern }) => [
        name,
        h("input", {
          type: "text",
          id: `system-${name}`,
          autocomplete: "off",
          spellcheck: "false",
          required,
          maxlength,
          pattern,
        }),
      ]),
    );
    this.form = h("form", {
      class: "note",
      "aria-label": "Add a system",
      hidden: true,
      on: { submit: (event) => this.add(event) },
    });
    this.more = button("Add a system", () => this.begin());
    this.element = h(
      "details",
      {
        class: "owner-card assignments systems",
        hidden: true,
        on: { toggle: () => this.element.open && this.load() },
      },
      h("summary", { text: "Other people’s systems" }),
      h("p", {
        class: "muted",
        text: "Each is a voice on every page. Programs are added on the server’s command line: studio systems add.",
      }),
      this.notice,
      this.list,
      h("div", { class: "actions" }, this.more),
      this.form,
    );
    this.offer();
  }

  /** Show the section where the server has such routes. */
  async offer() {
    this.element.hidden = !(await this.calls.get("").then(
      () => true,
      () => false,
    ));
  }

  /** Call the server and draw the list that it answers with; resolves to whether that succeeded. */
  async draw(work) {
    try {
      const { systems, kinds } = await work();
      this.list.replaceChildren(...systems.map((one) => this.row(one)));
      if (!this.kind.options.length)
        this.kind.replaceChildren(...kinds.map((kind) => new Option(kindTitle(kind), kind)));
      return true;
    } catch (error) {
      this.showMessage(error.message);
      return false;
    }
  }

  load() {
    return this.draw(() => this.calls.get(""));
  }

  begin() {
    const row = (id, text, hint, field) =>
      h(
        "div",
        { class: "field" },
        h("label", { for: id, text }),
        field,
        hint ? h("small", { class: "muted", text: hint }) : null,
      );
    this.form.replaceChildren(
      row("system-kind", "Kind", "", this.kind),
      ...FIELDS.map(({ name, text, hint }) => row(`system-${name}`, text, hint, this.fields[name])),
      h("div", { class: "actions" }, h("button", { type: "submit", class: "primary", text: "Add this system" })),
    );
    this.form.hidden = false;
    this.more.hidden = true;
    this.kind.focus();
  }

  row(one) {
    const { name, address, kind, is_removable: isRemovable } = one;
    const state = one.speaking ? `speaking, ${one.speaking} of ${one.slots}` : one.opened ? "idle" : "not used yet";
    const counts = one.opened ? ` · ${one.opened} spoken, ${one.failed} failed` : "";
    const failure = one.last_failure
      ? h("p", { class: "failure", text: `Last failure, ${Math.round(one.failed_s_ago)} s ago: ${one.last_failure}` })
      : null;
    const remove = isRemovable ? button("Remove", () => this.remove(name), { "aria-label": `Remove ${name}` }) : null;
    return h(
      "li",
      { class: "system", data: { name } },
      h("b", { text: name }),
      h("p", { class: "muted", text: `${[kindTitle(kind), address].filter(Boolean).join(" · ")} · ${state}${counts}` }),
      h("p", { class: "muted", text: one.notes }),
      failure,
      h(
        "div",
        { class: "actions" },
        button("Test", (event) => this.test(name, event.currentTarget), { "aria-label": `Test ${name}` }),
        remove,
      ),
    );
  }

  async test(name, pressed) {
    pressed.disabled = true;
    this.showMessage(`${name} speaks a sentence …`, "info");
    try {
      const { first_ms: firstMs, length_s: lengthS, sources } = await this.calls.post("/test", { name });
      const times = `first sound after ${Math.round(firstMs)} ms, ${lengthS.toFixed(2)} s of speech`;
      this.showMessage(`${name} works: ${times}, word times: ${sources.join(", ")}.`, "info");
    } catch (error) {
      this.showMessage(`${name} does not speak: ${error.message}`);
    }
    await this.load();
  }

  async add(event) {
    event.preventDefault();
    const body = { kind: this.kind.value };
    for (const [name, field] of Object.entries(this.fields)) body[name] = field.value.trim();
    if (!(await this.draw(() => this.calls.post("", body)))) return;
    this.showMessage(`${body.name} is added. Test it, or choose it on any page.`, "info");
    this.form.reset();
    this.form.replaceChildren();
    this.form.hidden = true;
    this.more.hidden = false;
  }

  async remove(name) {
    if (!(await this.confirm(`Remove ${name}?`, "What it spoke stays; it speaks no more.", "Remove it"))) return;
    if (await this.draw(() => this.calls.post("/remove", { name }))) this.showMessage(`${name} is removed.`, "info");
  }
}
