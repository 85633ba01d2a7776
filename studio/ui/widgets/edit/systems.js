// Systems of a test: studio voices, uploaded clips, server folders.

import { counted } from "../page/plurals.js";
import { button, h } from "../rate/dom.js";
import { choice, labelled, line, row, section } from "./fields.js";

const ROLES = [
  ["test", "rated"],
  ["reference", "reference"],
];

export class Systems {
  /** `page` has `change(path, body)`, `upload(system, files, onStatus)` and `ask(question)`. */
  constructor(page, voices, terms) {
    this.page = page;
    this.terms = terms;
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
    const kind = speaks ? "voice" : sounds || !aside ? "clips" : "clips for practice and checks";
    const drop = button(
      "Remove",
      () =>
        this.page
          .ask(`Remove ${name} and its ${counted(sounds + aside, "sound")}?`)
          .then((is) => is && this.page.change("/systems/drop", { system: name })),
      { "aria-label": `Remove ${name}` },
    );
    const progress = sounds || !aside ? `${sounds} of ${counted(texts, "text")}` : counted(aside, "sound");
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
        ...voice.options.map((option) => this.option(this.terms.plainOption(option))),
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
    const files = h("input", { type: "file", multiple: true, accept: ".wav,.flac,.aiff,.ogg,.opus,.mp3,audio/*" });
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
