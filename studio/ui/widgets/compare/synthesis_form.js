// Form that synthesizes the compared utterances: one text and a set of variants per click, with progress and stop.

import { Terms } from "../glossary/tips.js";
import { h } from "../rate/dom.js";
import { Speaker } from "./speaker.js";

export const MAX_UTTERANCES = 8; // in one comparison
const STEPS = 5; // values tried of a float option
const SEEDS = 4;

const addressOf = (voice, speaker) => `${voice.name}:${speaker}`;

/** Values to try of one option; empty where there is no choice. */
function valuesToTry(option) {
  if (option.kind === "choice") return option.choices.slice(0, MAX_UTTERANCES);
  const { low, high } = option;
  if (low === null || high === null || high <= low) return [];
  const isWhole = option.kind === "int";
  const count = isWhole ? Math.min(MAX_UTTERANCES, high - low + 1) : STEPS;
  const values = Array.from({ length: count }, (_, k) => low + ((high - low) * k) / (count - 1));
  return values.map((value) => (isWhole ? Math.round(value) : Number(value.toFixed(3))));
}

/** The name of a set that tries the values of one option. */
function wayName({ kind, label }, values) {
  if (kind !== "choice") return `${label} ${values[0]} to ${values.at(-1)}`;
  return values.length === 2 ? `Both ${label.toLowerCase().replace(/s$/, "")}s` : `${label} ${values.join(", ")}`;
}

/**
 * Sets of variants as {name, title, jobs}: all values of each option, all voices, a few seeds. With `isOverlapped` the
 * result is vocoded again with the overlapped vocoder.
 * `base`: common settings {voice, speaker, seed, temperature, speed, options}.
 * `terms`: the plain names of options.
 */
export function variantSets(voices, base, terms = new Terms()) {
  const voice = voices.find(({ name }) => name === base.voice) ?? voices[0];
  const job = (label, more = {}) => ({
    label,
    rateHz: voice.sample_rate_hz,
    voice: addressOf(voice, base.speaker),
    seed: base.seed,
    temperature: base.temperature,
    speed: base.speed,
    options: base.options,
    ...more,
  });
  const ways = voice.options.map((option) => {
    const values = valuesToTry(option);
    const jobs = values.map((value) =>
      job(`${option.name} = ${value}`, { options: { ...base.options, [option.name]: value } }),
    );
    return {
      name: wayName(terms.plainOption(option), values),
      title: `${option.label} (${option.name}): ${values.join(", ")}`,
      jobs,
    };
  });
  const pairs = voices.flatMap((one) => one.speakers.map((speaker) => [one, speaker]));
  const speaking =
    pairs.length <= MAX_UTTERANCES ? pairs : voices.slice(0, MAX_UTTERANCES).map((one) => [one, one.speakers[0]]);
  const everyone = speaking.map(([one, speaker]) =>
    job(addressOf(one, speaker), {
      voice: addressOf(one, speaker),
      temperature: null,
      options: {},
      rateHz: one.sample_rate_hz,
    }),
  );
  const families = new Set(voices.map(({ family }) => family)).size;
  ways.push({
    name: `All voices (${everyone.length})`,
    title: families > 1 ? `of ${families} families` : "each with its default settings",
    jobs: everyone,
  });
  const seeds = Array.from({ length: SEEDS }, (_, k) => job(`seed = ${base.seed + k}`, { seed: base.seed + k }));
  ways.push({
    name: `${SEEDS} variations`,
    title: `same settings, seeds ${base.seed} to ${base.seed + SEEDS - 1}`,
    jobs: seeds,
  });
  ways.push({
    name: "Both vocoders",
    title: "the same frames with the causal vocoder, and with each segment vocoded separately and cross-faded",
    jobs: [job("as it is")],
    isOverlapped: true,
  });
  ways.push({ name: "Current settings", title: "once, with these settings", jobs: [job("as it is")] });
  return ways.filter(({ jobs, name, isOverlapped }) => jobs.length > 1 || isOverlapped || name === "Current settings");
}

export class SynthesisForm {
  /** `on`: status(text, level), room() (how many can be added), added(tokens, text, level). `query`: the URL's parameters. `terms`: plain names of options. */
  constructor(page, server, query, terms, on) {
    this.page = page;
    this.terms = terms;
    this.server = server;
    this.query = query;
    this.on = on;
    this.form = page.querySelector(".making");
    this.says = page.querySelector(".says");
    this.voice = page.querySelector(".voice");
    this.stopping = page.querySelector(".stop");
    this.voices = [];
    this.speaker = null;
    this.says.value = query.get("text")?.slice(0, this.says.maxLength) ?? "";
    this.voice.addEventListener("change", () => this.offer());
    this.form.addEventListener("submit", (e) => e.preventDefault());
    this.stopping.addEventListener("click", () => this.speaker?.stop());
    addEventListener("pagehide", () => this.speaker?.stop());
    this.fetch();
  }

  /** Use text, voice and settings of the open utterance where the URL gives none. */
  suggest({ text, about }) {
    if (!this.says.value.trim()) this.says.value = text.slice(0, this.says.maxLength);
    if (this.query.has("voice") || !about.voice) return;
    const { voice, speaker, seed, speed, options } = about;
    for (const [name, value] of Object.entries({ ...options, voice, speaker, seed, speed })) {
      if (value !== undefined && !this.query.has(name)) this.query.set(name, value);
    }
    if (this.voices.length) this.choose();
  }

  async fetch() {
    try {
      const answer = await fetch(`${this.server}api/voices`);
      this.voices = (await answer.json()).voices;
    } catch {
      return; // without voices, stored utterances can still be compared
    }
    const options = this.voices.flatMap((voice) =>
      voice.speakers.map((speaker) => new Option(`${voice.name}: ${speaker}`, `${voice.name}:${speaker}`)),
    );
    this.voice.replaceChildren(...options);
    this.choose();
    this.page.dataset.voices = this.voices.length;
  }

  /** Select the requested voice, or the first. */
  choose() {
    const requested = [this.query.get("voice"), this.query.get("speaker")];
    const voice = this.voices.find(({ name }) => name === requested[0]) ?? this.voices[0];
    const speaker = voice.speakers.includes(requested[1]) ? requested[1] : voice.speakers[0];
    this.voice.value = `${voice.name}:${speaker}`;
    this.offer();
  }

  /** Settings common to all variants: the selected voice and the URL's options for it. */
  get base() {
    const [name, speaker] = this.voice.value.split(":");
    const card = this.voices.find((one) => one.name === name);
    const options = {};
    for (const option of card.options) {
      const text = this.query.get(option.name);
      if (text === null) continue;
      const value = option.kind === "choice" ? text : Number(text);
      const fits =
        option.kind === "choice" ? option.choices.includes(value) : value >= option.low && value <= option.high;
      if (fits) options[option.name] = value;
    }
    const temperature = Number(this.query.get("temperature") ?? NaN);
    const seed = this.query.get("seed");
    const speed = Number(this.query.get("speed") ?? NaN);
    return {
      voice: name,
      speaker,
      seed: /^\d{1,15}$/.test(seed ?? "") ? Number(seed) : 0,
      temperature: temperature >= 0 && temperature <= 2 ? temperature : null,
      speed: speed >= 0.5 && speed <= 2 ? speed : 1,
      options,
    };
  }

  offer() {
    const { base } = this;
    const ways = variantSets(this.voices, base, this.terms);
    const buttons = ways.map((way) =>
      h("button", { type: "button", text: way.name, title: way.title, on: { click: () => this.begin(way) } }),
    );
    this.page.querySelector(".ways").replaceChildren(...buttons);
    const set = Object.entries({
      ...base.options,
      ...(base.seed ? { seed: base.seed } : {}),
      ...(base.temperature === null ? {} : { temperature: base.temperature }),
      ...(base.speed === 1 ? {} : { speed: base.speed }),
    });
    this.page.querySelector(".base").textContent = set.length
      ? `Settings unless a button sets others: ${set.map(([name, value]) => `${name} = ${value}`).join(", ")}.`
      : "";
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
      return this.on.status("Enter a text first: all utterances say the same.", "error");
    }
    if (isOverlapped && room === 1) return this.on.status("This adds two utterances: remove one first.", "error");
    if (!room)
      return this.on.status(`At most ${MAX_UTTERANCES} utterances can be compared: remove one first.`, "error");
    const accepted = jobs.slice(0, room);
    const tokens = [];
    const refused = [];
    const socket = new URL("ws/speak", this.server.replace(/^http/, "ws"));
    this.speaker = new Speaker(socket, text, accepted, {
      progress: (number, waits) =>
        this.on.status(
          `Speaking ${number + 1} of ${accepted.length}: ${accepted[number].label}${waits ? ` (${waits})` : ""} …`,
        ),
      spoken: (token) => tokens.push(token),
      refused: (message, job) => refused.push(`${job.label}: ${message}`),
      done: async (message) => {
        if (isOverlapped && tokens.length) await this.overlap(tokens, refused);
        this.speaker = null;
        this.show();
        const left = jobs.length > accepted.length ? [`Only ${accepted.length} of ${jobs.length} fit the limit.`] : [];
        const notes = [...left, ...(message ? [message] : []), ...refused.map((one) => `Left out: ${one}.`)];
        if (message === "" && !tokens.length) notes.push("Stopped.");
        this.on.added(tokens, notes.join(" "), message || refused.length ? "error" : "");
      },
    });
    return this.show();
  }

  /** Vocode the utterance again one segment at a time, and append the new trace to `tokens`. */
  async overlap(tokens, refused) {
    this.on.status("Vocoding one segment at a time …");
    try {
      const answer = await fetch(`${this.server}traces/${encodeURIComponent(tokens[0])}/overlapped`, {
        method: "POST",
      });
      const body = await answer.json();
      if (answer.ok) tokens.push(body.trace);
      else refused.push(`overlapped: ${body.message}`);
    } catch {
      refused.push("overlapped: the server cannot be reached");
    }
  }
}
