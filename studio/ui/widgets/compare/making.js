// Makes what is compared: one text, and a way to speak it with one click; progress is shown, and can be stopped.

import { h } from "../rate/dom.js";
import { Speaker } from "./speaker.js";
import { waysOf } from "./ways.js";

export const MOST = 8; // utterances in one comparison

export class Making {
  /** `on` has told(text, level), room() (how many may still be added), made(tokens). `asked`: the address's parameters. */
  constructor(page, server, asked, on) {
    Object.assign(this, { page, server, asked, on });
    this.form = page.querySelector(".making");
    this.says = page.querySelector(".says");
    this.voice = page.querySelector(".voice");
    this.stopping = page.querySelector(".stop");
    this.voices = [];
    this.speaker = null;
    this.says.value = asked.get("text")?.slice(0, this.says.maxLength) ?? "";
    this.voice.addEventListener("change", () => this.offer());
    this.form.addEventListener("submit", (e) => e.preventDefault());
    this.stopping.addEventListener("click", () => this.speaker?.stop());
    addEventListener("pagehide", () => this.speaker?.stop());
    this.fetch();
  }

  /** Text, voice and settings of what is open, where none were given. */
  suggest({ text, about }) {
    if (!this.says.value.trim()) this.says.value = text.slice(0, this.says.maxLength);
    if (this.asked.has("voice") || !about.voice) return;
    const { voice, speaker, seed, options } = about;
    for (const [name, value] of Object.entries({ ...options, voice, speaker, seed })) {
      if (value !== undefined && !this.asked.has(name)) this.asked.set(name, value);
    }
    if (this.voices.length) this.choose();
  }

  async fetch() {
    try {
      const answer = await fetch(`${this.server}api/voices`);
      this.voices = (await answer.json()).voices;
    } catch {
      return; // without voices nothing can be spoken; what was kept can still be compared
    }
    const options = this.voices.flatMap((voice) => voice.speakers.map((speaker) => new Option(`${voice.name}: ${speaker}`, `${voice.name}:${speaker}`)));
    this.voice.replaceChildren(...options);
    this.choose();
    this.page.dataset.voices = this.voices.length;
  }

  /** The voice that was asked for, or the first. */
  choose() {
    const wanted = [this.asked.get("voice"), this.asked.get("speaker")];
    const voice = this.voices.find(({ name }) => name === wanted[0]) ?? this.voices[0];
    const speaker = voice.speakers.includes(wanted[1]) ? wanted[1] : voice.speakers[0];
    this.voice.value = `${voice.name}:${speaker}`;
    this.offer();
  }

  /** What stays the same: the voice that is chosen, and settings that the address brought for it. */
  get base() {
    const [name, speaker] = this.voice.value.split(":");
    const card = this.voices.find((one) => one.name === name);
    const options = {};
    for (const option of card.options) {
      const given = this.asked.get(option.name);
      if (given === null) continue;
      const value = option.kind === "choice" ? given : Number(given);
      const fits = option.kind === "choice" ? option.choices.includes(value) : value >= option.low && value <= option.high;
      if (fits) options[option.name] = value;
    }
    const heat = Number(this.asked.get("temperature") ?? NaN);
    const seed = this.asked.get("seed");
    return { voice: name, speaker, seed: /^\d{1,15}$/.test(seed ?? "") ? Number(seed) : 0, temperature: heat >= 0 && heat <= 2 ? heat : null, options };
  }

  offer() {
    const { base } = this;
    const ways = waysOf(this.voices, base);
    const buttons = ways.map((way) => h("button", { type: "button", text: way.name, title: way.title, on: { click: () => this.begin(way) } }));
    this.page.querySelector(".ways").replaceChildren(...buttons);
    const set = Object.entries({ ...base.options, ...(base.seed ? { seed: base.seed } : {}), ...(base.temperature === null ? {} : { temperature: base.temperature }) });
    this.page.querySelector(".base").textContent = set.length ? `Set, where a button does not say otherwise: ${set.map(([name, value]) => `${name} = ${value}`).join(", ")}.` : "";
    this.show();
  }

  show() {
    const isBusy = this.speaker !== null;
    for (const button of this.page.querySelectorAll(".ways button")) button.disabled = isBusy;
    this.stopping.hidden = !isBusy;
  }

  begin({ jobs, isOverlapped = false }) {
    const text = this.says.value.trim();
    const room = this.on.room();
    if (!text) {
      this.says.focus();
      return this.on.told("Give a text first: they all say the same.", "error");
    }
    if (isOverlapped && room === 1) return this.on.told("These are two: take one away first.", "error");
    if (!room) return this.on.told(`${MOST} are compared already: take one away first.`, "error");
    const taken = jobs.slice(0, room);
    const made = [];
    const refused = [];
    const socket = new URL("ws/speak", this.server.replace(/^http/, "ws"));
    this.speaker = new Speaker(socket, text, taken, {
      progress: (number, waits) => this.on.told(`Speaking ${number + 1} of ${taken.length}: ${taken[number].label}${waits ? ` (${waits})` : ""} …`),
      spoken: (token) => made.push(token),
      refused: (message, job) => refused.push(`${job.label}: ${message}`),
      done: async (message) => {
        if (isOverlapped && made.length) await this.overlap(made, refused);
        this.speaker = null;
        this.show();
        const left = jobs.length > taken.length ? [`Only ${taken.length} of ${jobs.length} had room beside what is open.`] : [];
        const said = [...left, ...(message ? [message] : []), ...refused.map((one) => `Left out: ${one}.`)];
        if (message === "" && !made.length) said.push("Stopped.");
        this.on.made(made, said.join(" "), message || refused.length ? "error" : "");
      },
    });
    return this.show();
  }

  /** What was spoken once more, its frames vocoded a segment at a time; its name joins `made`. */
  async overlap(made, refused) {
    this.on.told("Vocoding it a segment at a time …");
    try {
      const answer = await fetch(`${this.server}traces/${encodeURIComponent(made[0])}/overlapped`, { method: "POST" });
      const said = await answer.json();
      if (answer.ok) made.push(said.trace);
      else refused.push(`overlapped: ${said.message}`);
    } catch {
      refused.push("overlapped: the server cannot be reached");
    }
  }
}
