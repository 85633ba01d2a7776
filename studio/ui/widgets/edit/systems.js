// What is heard: voices of this studio with their settings, sounds that are brought, and the texts that are spoken.

import { AGAIN_MS } from "../owner/calls.js";
import { button, h } from "../rate/dom.js";
import { area, check, choice, count, labelled, line, row, section } from "./fields.js";

const ROLES = [["test", "rated"], ["reference", "reference"]];

export class Systems {
  /** `page` has `change(path, body)`, `upload(system, files, told)` and `ask(question)`. */
  constructor(page, voices) {
    Object.assign(this, { page, voices });
    this.list = h("div", { class: "systems" });
    this.folders = h("div");
    this.element = section("Systems", "Voices of this studio, or sounds of any system: WAV or FLAC, 16 kHz or more.", this.list, this.voiceForm(), this.clipForm(), this.folders);
  }

  update(state) {
    const isDraft = state.state === "draft";
    const texts = state.items.test;
    this.list.replaceChildren(...(state.systems.length ? state.systems.map((one) => this.system(one, texts, isDraft)) : [h("p", { class: "muted", text: "There is none yet." })]));
    for (const form of this.element.querySelectorAll(".adding")) form.hidden = !isDraft;
    this.clips.hidden = !isDraft || state.is_spoken; // there the systems are voices
    this.drawFolders(state, isDraft);
  }

  system({ name, role, sounds, aside, speaks }, texts, isDraft) {
    const roles = role === "anchor" ? null : this.role(name, role, isDraft);
    const kind = speaks ? "voice" : aside ? "clips for practice and checks" : "clips";
    const drop = button("Remove", () => this.page.ask(`Take ${name} out, with its ${count(sounds + aside, "sound")}?`).then((is) => is && this.page.change("/systems/drop", { system: name })), { "aria-label": `Remove ${name}` });
    const said = sounds || !aside ? `${sounds} of ${count(texts, "text")}` : count(aside, "sound");
    return h("div", { class: "system", data: { name, whole: sounds >= texts || aside ? "1" : "0" } }, h("b", { text: name }), h("span", { class: "muted", text: `${role === "anchor" && !aside ? "anchor" : kind} · ${said}` }), roles, isDraft ? drop : null);
  }

  role(name, role, isDraft) {
    const taken = { role };
    const field = choice(taken, "role", ROLES, () => this.page.change("/systems", { system: name, role: taken.role }));
    field.disabled = !isDraft;
    field.setAttribute("aria-label", `Role of ${name}`);
    return field;
  }

  voiceForm() {
    const every = this.voices.flatMap((voice) => voice.speakers.map((speaker) => ({ voice, speaker })));
    if (!every.length) return h("p", { class: "muted", text: "This server has no voice." });
    const taken = { at: "0" };
    const options = h("div", { class: "fields" });
    const draw = () => {
      const { voice } = every[Number(taken.at)];
      this.given = {};
      options.replaceChildren(...voice.options.map((option) => this.option(option)), this.option({ name: "seed", label: "Seed", kind: "int", default: 0, low: 0 }), this.option({ name: "temperature", label: "Temperature", kind: "float", default: voice.temperature, low: 0, high: 2 }));
    };
    const which = choice(taken, "at", every.map(({ voice, speaker }, k) => [String(k), `${speaker} (${voice.title || voice.name})`]), draw);
    which.value = "0";
    draw();
    const add = button("Add this voice", () => {
      const { voice, speaker } = every[Number(taken.at)];
      const said = Object.entries(this.given).filter(([, value]) => value !== "").map(([name, value]) => `${name}=${value}`).join(",");
      return this.page.change("/systems", { system: `${voice.name}:${speaker}${said ? `?${said}` : ""}`, role: "test" });
    });
    return h("details", { class: "adding", open: true }, h("summary", { text: "Add a voice" }), row(labelled("Voice", which)), options, h("div", { class: "actions" }, add));
  }

  /** An option of a voice; what is left as it is stays out of the system's name. */
  option({ name, label, kind, low, high, choices, default: usual, help }) {
    const given = this.given;
    given[name] = "";
    const taken = { value: String(usual ?? "") };
    const changed = () => (given[name] = taken.value === String(usual) ? "" : taken.value.trim());
    const field = kind === "choice" ? choice(taken, "value", choices.map((one) => [one, one]), changed) : line(taken, "value", changed, { type: "number", min: low, max: high, step: kind === "int" ? 1 : "any" });
    return labelled(label || name, field, help && help.length < 80 ? help : "");
  }

  clipForm() {
    const taken = { system: "" };
    const name = line(taken, "system", () => {}, { maxlength: 80, placeholder: "ground-truth" });
    const files = h("input", { type: "file", multiple: true, accept: ".wav,.flac,audio/wav,audio/flac" });
    const told = h("p", { class: "muted", role: "status" });
    const add = button("Add these clips", async () => {
      if (!taken.system.trim() || !files.files.length) return void (told.textContent = "Name the system, and choose its files.");
      const isTaken = await this.page.upload(taken.system.trim(), [...files.files], (text) => (told.textContent = text));
      if (isTaken) files.value = "";
    });
    this.clips = h("details", { class: "adding" }, h("summary", { text: "Add clips of a system" }), row(labelled("System", name, "“reference” is the reference"), labelled("Files", files, "a file is called as its text: hello.wav says the text named hello")), h("div", { class: "actions" }, add), told);
    return this.clips;
  }

  drawFolders({ folders, is_spoken: isSpoken }, isDraft) {
    if (!isDraft || isSpoken) return void this.folders.replaceChildren();
    const key = folders.join("/");
    if (this.drawn === key) return;
    this.drawn = key;
    const about = "A folder SYSTEM/ITEM.wav, or a CSV or JSON manifest, that lies in the folder “sounds” of the server's data folder; checked as the command line checks it.";
    const taken = { folder: folders[0] ?? "" };
    const add = folders.length
      ? [row(labelled("Folder", choice(taken, "folder", folders.map((one) => [one, one]), () => {}))), h("div", { class: "actions" }, button("Add this folder", () => this.page.change("/sounds", { folder: taken.folder })))]
      : [h("p", { class: "muted", text: "There is none." })];
    this.folders.replaceChildren(h("details", { class: "adding" }, h("summary", { text: "Add a folder of the server" }), h("p", { class: "muted", text: about }), ...add));
  }
}

export class TextList {
  constructor(page, settings, changed) {
    Object.assign(this, { page });
    this.written = { texts: "" };
    this.field = area(this.written, "texts", () => this.typed(), { rows: 8, maxlength: 60000, spellcheck: "true" });
    this.counted = h("p", { class: "muted", role: "status" });
    this.asked = h("div", { class: "owner-notice", data: { level: "error" }, hidden: true });
    this.speak = h("div", { class: "speaking" });
    const field = labelled("Texts, one a line", this.field, "A line may begin with a name of its own: hello|Hello, and good morning. Clips belong to the text of their file's name.");
    this.element = section("Texts", "", field, this.counted, this.asked, row(check(settings, "show_text", "Raters see the text", changed), check(settings, "text_after", "…only after they have heard every sound", changed)), this.speak);
  }

  typed() {
    clearTimeout(this.timer);
    this.isTyping = true;
    this.timer = setTimeout(() => this.save(false), 900);
    this.page.waits();
  }

  /** Save now what would be saved in a moment. */
  flush() {
    if (this.isTyping) this.save(false);
  }

  async save(sure) {
    clearTimeout(this.timer);
    this.isTyping = false;
    this.asked.hidden = true;
    const texts = this.written.texts;
    const error = await this.page.change("/texts", { texts, sure }, { quiet: ["loses_sounds"] });
    if (error?.code !== "loses_sounds") {
      this.isTyping ||= Boolean(error); // what is typed stays, and the page asks before it is left
      if (error?.isTemporary) this.timer = setTimeout(() => this.save(sure), AGAIN_MS);
      return;
    }
    const back = () => ((this.asked.hidden = true), this.take(this.page.state.texts), this.page.say("All is saved"));
    this.asked.replaceChildren(h("p", { text: error.message }), h("div", { class: "actions" }, button("Save all the same", () => this.save(true)), button("Put the texts back", back)));
    this.asked.hidden = false;
  }

  take(texts) {
    this.field.value = this.written.texts = texts;
  }

  update(state) {
    if (!this.isTyping && this.asked.hidden && document.activeElement !== this.field) this.take(state.texts);
    this.field.readOnly = state.state !== "draft";
    const { test, training, trap, gold } = state.items;
    const rest = [[training, "practice clip"], [trap, "trap"], [gold, "gold"]].filter(([n]) => n).map(([n, what]) => count(n, what));
    this.counted.textContent = [count(test, "text"), ...rest].join(", ");
    this.drawSpeaking(state);
  }

  drawSpeaking({ unspoken, speaking, state }) {
    if (state !== "draft") return void this.speak.replaceChildren();
    const isOn = speaking && !speaking.over;
    const bar = isOn ? h("progress", { max: speaking.of, value: speaking.done, "aria-label": "sounds spoken" }) : null;
    const press = isOn ? button("Stop", () => this.page.change("/speak/stop")) : unspoken ? button(`Speak ${count(unspoken, "sound")}`, () => this.page.change("/speak"), { class: "primary" }) : null;
    const told = isOn ? `${speaking.done} of ${speaking.of} spoken` : speaking?.error ? `Not all was spoken: ${speaking.error}` : unspoken ? `${count(unspoken, "sound")} still to be spoken by the voices above` : "";
    this.speak.replaceChildren(...[press, bar, h("p", { class: "muted", role: "status", text: told }), ...(speaking?.over ? speaking.notes : []).map((note) => h("p", { class: "muted", text: `Note: ${note}` }))].filter(Boolean));
  }
}
