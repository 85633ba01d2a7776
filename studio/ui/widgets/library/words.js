// How figures and days are written.

const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });

/** `2 words`, `1 word`. */
export const counted = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

/** `4.2 s`, `12:05`. */
export function length(ms) {
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")} min`;
}

/** Seconds since 1970 as people read them; days are UTC, as the search has them. */
export const moment = (s) => `${DAY.format(new Date(s * 1000))} UTC`;

/** What somebody typed between commas. */
export const tagsOf = (text) => [...new Set(text.split(",").map((tag) => tag.trim().replace(/\s+/g, " ")).filter(Boolean))];
