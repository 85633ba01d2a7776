// Systems of a test (studio voices, uploaded clips, server folders) and its texts.

import { AGAIN_MS } from "../owner/calls.js";
import { button, h } from "../rate/dom.js";
import { area, check, choice, count, labelled, line, row, section } from "./fields.js";

const ROLES = [
  ["test", "rated"],
  ["reference", "reference"],
];

export class Systems {
  /** `page` has `change(path, body)`, `upload(system, files, onStatus)` and `ask(question)`. */
  constructor(page, voices) {
    this.page = page;
    this.voices = voices;
    this.list = h("div", { class: "systems" });
    this.folders = h("div");
    this.element = section(
      "Systems",
      "Voices of this studio, or sounds of any system: WAV or FLAC, 16 kHz or more.",
      this.list,
      this.voiceForm(),
      this.clipForm(),
      this.folders,
    );
  }

  update(state) {
    const isDraft = state.state === "draft";
    const texts = state.items.test;
    this.list.replaceChildren(
      ...(state.systems.length
        ? state.systems.map((one) => this.system(one, texts, isDraft))
        : [h("p", { class: "muted", text: "No systems yet." })]),
    );
    for (const form of this.element.querySelectorAll(".adding")) form.hidden = !isDraft;
    this.clips.hidden = !isDraft || state.is_spoken; // live kinds compare voices only
    this.drawFolders(state, isDraft);
  }

  system({ name, role, sounds, aside, speaks }, texts, isDraft) {
    const roles = role === "anchor" ? null : this.role(name, role, isDraft);
    const kind = speaks ? "voice" : aside ? "clips for practice and checks" : "clips";
    const drop = button(
      "Remove",
      () =>
        this.page
          .ask(`Remove ${name} and its ${count(sounds + aside, "sound")}?`)
          .then((is) => is && this.page.change("/systems/drop", { system: name })),
      { "aria-label": `Remove ${name}` },
    );
    const progress = sounds || !aside ? `${sounds} of ${count(texts, "text")}` : count(aside, "sound");
    return h(
      "div",
      { class: "system", data: { name, whole: sounds >= texts || aside ? "1" : "0" } },
      h("b", { text: name }),
      h("span", { class: "muted", text: `${role === "anchor" && !aside ? "anchor" : kind} · ${progress}` }),
      roles,
      isDraft ? drop : null,
    );
  }

  role(name, role, isDraft) {
    const form = { role };
    const field = choice(form, "role", ROLES, () => this.page.change("/systems", { system: name, role: form.role }));
    field.disabled = !isDraft;
    field.setAttribute("aria-label", `Role of ${name}`);
    return field;
  }

  voiceForm() {
    const speakers = this.voices.flatMap((voice) => voice.speakers.map((speaker) => ({ voice, speaker })));
    if (!speakers.length) return h("p", { class: "muted", text: "This server has no voice." });
    const form = { at: "0" };
    const options = h("div", { class: "fields" });
    const draw = () => {
      const { voice } = speakers[Number(form.at)];
      this.optionValues = {};
      options.replaceChildren(
        ...voice.options.map((option) => this.option(option)),
        this.option({ name: "seed", label: "Seed", kind: "int", default: 0, low: 0 }),
        this.option({
          name: "temperature",
          label: "Temperature",
          kind: "float",
          default: voice.temperature,
          low: 0,
          high: 2,
        }),
      );
    };
    const which = choice(
      form,
      "at",
      speakers.map(({ voice, speaker }, k) => [String(k), `${speaker} (${voice.title || voice.name})`]),
      draw,
    );
    which.value = "0";
    draw();
    const add = button("Add this voice", () => {
      const { voice, speaker } = speakers[Number(form.at)];
      const query = Object.entries(this.optionValues)
        .filter(([, value]) => value !== "")
        .map(([name, value]) => `${name}=${value}`)
        .join(",");
      return this.page.change("/systems", {
        system: `${voice.name}:${speaker}${query ? `?${query}` : ""}`,
        role: "test",
      });
    });
    return h(
      "details",
      { class: "adding", open: true },
      h("summary", { text: "Add a voice" }),
      row(labelled("Voice", which)),
      options,
      h("div", { class: "actions" }, add),
    );
  }

  /** A field for a voice option; default values stay out of the system's name. */
  option({ name, label, kind, low, high = undefined, choices = [], default: initial, help = "" }) {
    const values = this.optionValues;
    values[name] = "";
    const form = { value: String(initial ?? "") };
    const changed = () => (values[name] = form.value === String(initial) ? "" : form.value.trim());
    const field =
      kind === "choice"
        ? choice(
            form,
            "value",
            choices.map((one) => [one, one]),
            changed,
          )
        : line(form, "value", changed, { type: "number", min: low, max: high, step: kind === "int" ? 1 : "any" });
    return labelled(label || name, field, help && help.length < 80 ? help : "");
  }

  clipForm() {
    const form = { system: "" };
    const name = line(form, "system", () => {}, { maxlength: 80, placeholder: "ground-truth" });
    const files = h("input", { type: "file", multiple: true, accept: ".wav,.flac,audio/wav,audio/flac" });
    const status = h("p", { class: "muted", role: "status" });
    const add = button("Add these clips", async () => {
      if (!form.system.trim() || !files.files.length) {
        status.textContent = "Enter the name of the system and choose its files.";
        return;
      }
      const isAdded = await this.page.upload(
        form.system.trim(),
        [...files.files],
        (text) => (status.textContent = text),
      );
      if (isAdded) files.value = "";
    });
    this.clips = h(
      "details",
      { class: "adding" },
      h("summary", { text: "Add clips of a system" }),
      row(
        labelled("System", name, "“reference” for the reference"),
        labelled("Files", files, "each named after its text: hello.wav speaks the text named hello"),
      ),
      h("div", { class: "actions" }, add),
      status,
    );
    return this.clips;
  }

  drawFolders({ folders, is_spoken: isSpoken }, isDraft) {
    if (!isDraft || isSpoken) return void this.folders.replaceChildren();
    const key = folders.join("/");
    if (this.drawn === key) return;
    this.drawn = key;
    const about =
      "A folder SYSTEM/ITEM.wav, or a CSV or JSON manifest, in the folder “sounds” of the server's data folder. It is validated as on the command line.";
    const form = { folder: folders[0] ?? "" };
    const add = folders.length
      ? [
          row(
            labelled(
              "Folder",
              choice(
                form,
                "folder",
                folders.map((one) => [one, one]),
                () => {},
              ),
            ),
          ),
          h(
            "div",
            { class: "actions" },
            button("Add this folder", () => this.page.change("/sounds", { folder: form.folder })),
          ),
        ]
      : [h("p", { class: "muted", text: "There are no folders." })];
    this.folders.replaceChildren(
      h(
        "details",
        { class: "adding" },
        h("summary", { text: "Add a folder of the server" }),
        h("p", { class: "muted", text: about }),
        ...add,
      ),
    );
  }
}

export class TextList {
  constructor(page, settings, changed) {
    this.page = page;
    this.input = { texts: "" };
    this.field = area(this.input, "texts", () => this.typed(), { rows: 8, maxlength: 60000, spellcheck: "true" });
    this.counts = h("p", { class: "muted", role: "status" });
    this.confirmation = h("div", { class: "owner-notice", data: { level: "error" }, hidden: true });
    this.speak = h("div", { class: "speaking" });
    const field = labelled(
      "Texts, one per line",
      this.field,
      "A line may begin with a name: hello|Hello, and good morning. Clips are matched to texts by file name.",
    );
    this.element = section(
      "Texts",
      "",
      field,
      this.counts,
      this.confirmation,
      row(
        check(settings, "show_text", "Raters see the text", changed),
        check(settings, "text_after", "…only after hearing every sound", changed),
      ),
      this.speak,
    );
  }

  typed() {
    clearTimeout(this.timer);
    this.isTyping = true;
    this.timer = setTimeout(() => this.save(false), 900);
    this.page.showSaving();
  }

  /** Save pending input now. */
  flush() {
    if (this.isTyping) this.save(false);
  }

  async save(isConfirmed) {
    clearTimeout(this.timer);
    this.isTyping = false;
    this.confirmation.hidden = true;
    const texts = this.input.texts;
    const error = await this.page.change("/texts", { texts, sure: isConfirmed }, { quiet: ["loses_sounds"] });
    if (error?.code !== "loses_sounds") {
      this.isTyping ||= Boolean(error); // keeps the input, and the page warns before it is left
      if (error?.isTemporary) this.timer = setTimeout(() => this.save(isConfirmed), AGAIN_MS);
      return;
    }
    const restore = () => {
      this.confirmation.hidden = true;
      this.take(this.page.state.texts);
      this.page.showStatus("All changes saved");
    };
    this.confirmation.replaceChildren(
      h("p", { text: error.message }),
      h(
        "div",
        { class: "actions" },
        button("Save anyway", () => this.save(true)),
        button("Restore the texts", restore),
      ),
    );
    this.confirmation.hidden = false;
  }

  take(texts) {
    this.field.value = this.input.texts = texts;
  }

  update(state) {
    if (!this.isTyping && this.confirmation.hidden && document.activeElement !== this.field) this.take(state.texts);
    this.field.readOnly = state.state !== "draft";
    const { test, training, trap, gold } = state.items;
    const rest = [
      [training, "practice clip"],
      [trap, "trap"],
      [gold, "gold"],
    ]
      .filter(([n]) => n)
      .map(([n, what]) => count(n, what));
    this.counts.textContent = [count(test, "text"), ...rest].join(", ");
    this.drawSpeaking(state);
  }

  drawSpeaking({ unspoken, speaking, state }) {
    if (state !== "draft") return void this.speak.replaceChildren();
    const isOn = speaking && !speaking.over;
    const bar = isOn ? h("progress", { max: speaking.of, value: speaking.done, "aria-label": "sounds spoken" }) : null;
    const press = isOn
      ? button("Stop", () => this.page.change("/speak/stop"))
      : unspoken
        ? button(`Speak ${count(unspoken, "sound")}`, () => this.page.change("/speak"), { class: "primary" })
        : null;
    const status = isOn
      ? `${speaking.done} of ${speaking.of} spoken`
      : speaking?.error
        ? `Some sounds were not spoken: ${speaking.error}`
        : unspoken
          ? `${count(unspoken, "sound")} not yet spoken by the voices above`
          : "";
    this.speak.replaceChildren(
      ...[
        press,
        bar,
        h("p", { class: "muted", role: "status", text: status }),
        ...(speaking?.over ? speaking.notes : []).map((note) => h("p", { class: "muted", text: `Note: ${note}` })),
      ].filter(Boolean),
    );
  }
}
