// Entries of the history: their limits, what a row says, and where its links lead.

import { displayName } from "../../options/option_controls.js";
import { decimal, language, t } from "../../page/translate.js";

export const LIMITS = { entries: 20, bytes: 50_000_000 };
const NAME_CHARS = 40; // of a file's name

/** An entry of a recording of the Worker; the store adds its id. */
export const entryOf = ({ mode, text, settings, seconds, wav }, dateMs, trace) => ({
  mode,
  text,
  settings,
  seconds,
  dateMs,
  trace, // token of its trace on the server; "" without one
  bytes: wav.byteLength + 2 * text.length,
});

/** The ids that exceed the limits, oldest first; the newest entry stays. `entries` are oldest first. */
export function evicted(entries, limits = LIMITS) {
  let bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
  const out = [];
  for (const entry of entries.slice(0, -1)) {
    if (entries.length - out.length <= limits.entries && bytes <= limits.bytes) break;
    out.push(entry.id);
    bytes -= entry.bytes;
  }
  return out;
}

/** When, which voice, and how long, as text. */
export function describe({ dateMs, settings, seconds, mode }, nowMs = Date.now()) {
  const date = new Date(dateMs);
  const isToday = date.toDateString() === new Date(nowMs).toDateString();
  const time = date.toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit" });
  const when = isToday ? time : `${date.toLocaleDateString(language, { month: "short", day: "numeric" })}, ${time}`;
  const voice = settings.voice.split(":").map(displayName).join(": ");
  return [when, voice, `${decimal(seconds, 1)} s`, mode === "old" ? t("by sentences") : ""].filter(Boolean).join(" · ");
}

/** Addresses of the pages that open the entry's trace, relative to the server; null without a trace. */
export function pagesOf({ trace, settings }) {
  if (!trace) return null;
  const [voice, speaker] = settings.voice.split(":");
  const { seed, temperature, speed, options } = settings;
  const changed = { temperature, speed: speed === 1 ? null : speed };
  const query = Object.entries({ trace, voice, speaker, seed, ...changed, ...options });
  const set = query.filter(([, value]) => value !== null && value !== undefined);
  return { inspect: `inspect?${new URLSearchParams({ trace })}`, compare: `compare?${new URLSearchParams(set)}` };
}

/** The token in a trace's address; "" without one. */
export const traceToken = (url) => /traces\/([\w-]+)\.trace$/.exec(url ?? "")?.[1] ?? "";

/** The name of the downloaded file: the first words of the text. */
export function fileName(text) {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  let name = "";
  for (const word of words) {
    if (name && name.length + word.length >= NAME_CHARS) break;
    name += `${name && "-"}${word.slice(0, NAME_CHARS)}`;
  }
  return `${name || "speech"}.wav`;
}
