// Number, duration and date formats.

const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });

/** `2 words`, `1 word`. */
export const counted = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

/** `4.2 s`, `12:05`. */
export function length(ms) {
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")} min`;
}

/** Unix seconds as a date in UTC, like the days of the search. */
export const moment = (s) => `${DAY.format(new Date(s * 1000))} UTC`;

/** Distinct tags of a comma-separated text. */
export const tagsOf = (text) => [
  ...new Set(
    text
      .split(",")
      .map((tag) => tag.trim().replace(/\s+/g, " "))
      .filter(Boolean),
  ),
];
