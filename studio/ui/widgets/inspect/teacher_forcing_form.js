// Teacher forcing form: sends a recording through a voice and opens the resulting trace.

import { optionControl } from "../options/option_controls.js";

const MAX_TEXTGRID_MB = 16;

/** Voices that support teacher forcing; null if the server cannot be reached. */
export async function fetchForcingVoices(root) {
  try {
    const answer = await fetch(`${root}inspect/voices`);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

export class TeacherForcingForm {
  /** `on`: text() returns the transcript; opened(token, name, file); why(answer) returns an error message. */
  constructor(page, root, forcing, on) {
    this.root = root;
    this.on = on;
    this.forcing = forcing;
    this.section = page.querySelector(".through");
    const find = (selector) => this.section.querySelector(selector);
    this.voice = find(".voice");
    this.placing = find(".placing");
    this.grid = find(".grid input");
    this.send = find(".send");
    this.stop = find(".stop");
    this.status = find(".message");
    this.request = null; // AbortController of the request in flight
    this.voice.replaceChildren(
      ...forcing.voices.flatMap(({ name, speakers }) =>
        speakers.map((speaker) => new Option(`${name}: ${speaker}`, `${name}:${speaker}`)),
      ),
    );
    if (!forcing.aligner) this.placing.querySelector('[value="aligner"]').remove();
    this.settings = find(".its");
    this.list = find(".its .options");
    this.voice.addEventListener("change", () => this.draw());
    this.draw();
    this.placing.addEventListener("change", () => this.chosen());
    find("form").addEventListener("submit", (e) => {
      e.preventDefault();
      this.start();
    });
    this.stop.addEventListener("click", () => this.request?.abort());
    this.chosen();
  }

  /** Offer the form for `file`; hide it where `file` is null. */
  offer(file) {
    if (file && file === this.file) return; // its trace is open now; it can be sent again
    this.request?.abort();
    this.file = file;
    this.section.hidden = !file || !this.voice.options.length;
    this.showMessage("");
  }

  /** Draw the options of the selected voice; a change of speaker keeps their values. */
  draw() {
    const card = this.forcing.voices.find(({ name }) => this.voice.value.startsWith(`${name}:`));
    if (card === this.card) return;
    this.card = card;
    this.options = {};
    this.list.replaceChildren(
      ...(card?.options ?? []).map((option) =>
        optionControl(option, (value) => (this.options[option.name] = value), "through"),
      ),
    );
    this.settings.hidden = !this.list.childElementCount;
  }

  chosen() {
    this.grid.closest("label").hidden = this.placing.value !== "textgrid";
  }

  showMessage(message, level = "") {
    this.status.textContent = message;
    this.status.dataset.level = level;
  }

  async start() {
    if (this.request) return;
    const [byGrid, grid] = [this.placing.value === "textgrid", this.grid.files[0]];
    if (byGrid && !grid) return this.showMessage("Choose the TextGrid first.", "error");
    if (byGrid && grid.size > MAX_TEXTGRID_MB * 1e6)
      return this.showMessage(`${grid.name} is larger than ${MAX_TEXTGRID_MB} MB.`, "error");
    if (!byGrid && !this.on.text().trim())
      return this.showMessage("Write what the recording says into the text field above.", "error");
    const [file, request, voice] = [this.file, new AbortController(), this.voice.value];
    this.request = request;
    this.busy(true);
    const began = performance.now();
    const wait = () =>
      this.showMessage(`${file.name} goes through ${voice} … ${Math.round((performance.now() - began) / 1000)} s`);
    const ticking = setInterval(wait, 1000);
    wait();
    try {
      const token = await this.ask(file, byGrid ? grid : null, voice, request.signal);
      if (request.signal.aborted) return undefined;
      this.showMessage(`${file.name} went through ${voice}.`);
      this.on.opened(token, `${file.name} through ${voice}`, file);
    } catch (error) {
      const isAborted = request.signal.aborted;
      if (this.file === file)
        this.showMessage(
          isAborted ? "Stopped." : error instanceof TypeError ? "The server cannot be reached." : error.message,
          isAborted ? "" : "error",
        );
    } finally {
      clearInterval(ticking);
      if (this.request === request) this.request = null;
      this.busy(Boolean(this.request));
    }
    return undefined;
  }

  busy(isBusy) {
    this.send.disabled = isBusy;
    this.stop.hidden = !isBusy;
    this.section.toggleAttribute("aria-busy", isBusy);
  }

  async ask(file, grid, voice, signal) {
    const headers = {
      "Content-Type": "application/octet-stream",
      "X-Studio-Voice": encodeURIComponent(voice),
      "X-Studio-Text": grid ? "" : encodeURIComponent(this.on.text()),
      "X-Studio-Placed-By": this.placing.value === "aligner" ? this.forcing.aligner : "",
      "X-Studio-Options": encodeURIComponent(JSON.stringify(this.options)),
      "X-Studio-TextGrid-Bytes": String(grid?.size ?? 0),
    };
    const body = new Blob(grid ? [grid, file] : [file]);
    const answer = await fetch(`${this.root}inspect/force`, { method: "POST", body, headers, signal });
    if (!answer.ok) throw new Error(await this.on.why(answer));
    return (await answer.json()).trace;
  }
}
