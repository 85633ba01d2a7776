// Teacher forcing form: sends a recording through a voice and opens the resulting trace.

import { drawn } from "../options/drawn.js";

const MAX_TEXTGRID_MB = 16;

/** Voices that support teacher forcing; null if the server cannot be reached. */
export async function fetchTakers(root) {
  try {
    const answer = await fetch(`${root}inspect/voices`);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

export class Through {
  /** `on`: text() returns the transcript; opened(token, name, file); why(answer) returns an error message. */
  constructor(page, root, takers, on) {
    Object.assign(this, { root, on, takers });
    this.section = page.querySelector(".through");
    const find = (selector) => this.section.querySelector(selector);
    [this.voice, this.placing, this.grid, this.send, this.stop, this.status] = [".voice", ".placing", ".grid input", ".send", ".stop", ".said"].map(find);
    this.voice.replaceChildren(...takers.voices.flatMap(({ name, speakers }) => speakers.map((speaker) => new Option(`${name}: ${speaker}`, `${name}:${speaker}`))));
    if (!takers.aligner) this.placing.querySelector('[value="aligner"]').remove();
    [this.settings, this.list] = [find(".its"), find(".its .options")];
    this.voice.addEventListener("change", () => this.draw());
    this.draw();
    this.placing.addEventListener("change", () => this.chosen());
    find("form").addEventListener("submit", (e) => {
      e.preventDefault();
      this.start();
    });
    this.stop.addEventListener("click", () => this.going?.abort());
    this.chosen();
  }

  /** Offer the form for `file`; hide it where `file` is null. */
  offer(file) {
    if (file && file === this.file) return; // its trace is open now; it can be sent again
    this.going?.abort();
    this.file = file;
    this.section.hidden = !file || !this.voice.options.length;
    this.tell("");
  }

  /** Draw the options of the selected voice; a change of speaker keeps their values. */
  draw() {
    const card = this.takers.voices.find(({ name }) => this.voice.value.startsWith(`${name}:`));
    if (card === this.card) return;
    this.card = card;
    this.options = {};
    this.list.replaceChildren(...(card?.options ?? []).map((option) => drawn(option, (value) => (this.options[option.name] = value), "through")));
    this.settings.hidden = !this.list.childElementCount;
  }

  chosen() {
    this.grid.closest("label").hidden = this.placing.value !== "textgrid";
  }

  tell(message, level = "") {
    this.status.textContent = message;
    this.status.dataset.level = level;
  }

  async start() {
    if (this.going) return;
    const [byGrid, grid] = [this.placing.value === "textgrid", this.grid.files[0]];
    if (byGrid && !grid) return this.tell("Choose the TextGrid first.", "error");
    if (byGrid && grid.size > MAX_TEXTGRID_MB * 1e6) return this.tell(`${grid.name} is larger than ${MAX_TEXTGRID_MB} MB.`, "error");
    if (!byGrid && !this.on.text().trim()) return this.tell("Write what the recording says into the text field above.", "error");
    const [file, going, voice] = [this.file, new AbortController(), this.voice.value];
    this.going = going;
    this.busy(true);
    const began = performance.now();
    const wait = () => this.tell(`${file.name} goes through ${voice} … ${Math.round((performance.now() - began) / 1000)} s`);
    const ticking = setInterval(wait, 1000);
    wait();
    try {
      const token = await this.ask(file, byGrid ? grid : null, voice, going.signal);
      if (going.signal.aborted) return undefined;
      this.tell(`${file.name} went through ${voice}.`);
      this.on.opened(token, `${file.name} through ${voice}`, file);
    } catch (error) {
      const isAborted = going.signal.aborted;
      if (this.file === file) this.tell(isAborted ? "Stopped." : error instanceof TypeError ? "The server cannot be reached." : error.message, isAborted ? "" : "error");
    } finally {
      clearInterval(ticking);
      if (this.going === going) this.going = null;
      this.busy(Boolean(this.going));
    }
    return undefined;
  }

  busy(isBusy) {
    [this.send.disabled, this.stop.hidden] = [isBusy, !isBusy];
    this.section.toggleAttribute("aria-busy", isBusy);
  }

  async ask(file, grid, voice, signal) {
    const headers = {
      "Content-Type": "application/octet-stream",
      "X-Studio-Voice": encodeURIComponent(voice),
      "X-Studio-Text": grid ? "" : encodeURIComponent(this.on.text()),
      "X-Studio-Placed-By": this.placing.value === "aligner" ? this.takers.aligner : "",
      "X-Studio-Options": encodeURIComponent(JSON.stringify(this.options)),
      "X-Studio-TextGrid-Bytes": String(grid?.size ?? 0),
    };
    const body = new Blob(grid ? [grid, file] : [file]);
    const answer = await fetch(`${this.root}inspect/force`, { method: "POST", body, headers, signal });
    if (!answer.ok) throw new Error(await this.on.why(answer));
    return (await answer.json()).trace;
  }
}
