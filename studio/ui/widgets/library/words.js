// Number, duration and date formats.

const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** `4.2 s`, `12:05`. */
export function length(ms) {
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")} min`;
}

/** Unix seconds as date and time in the viewer's time zone, like the days of the search. */
export const moment = (s) => DAY.format(new Date(s * 1000));

/** The midnight that begins a day (`2026-11-28`) in the viewer's time zone, or a later one, as Unix seconds. */
export function midnight(day, daysLater = 0) {
  const [year, month, date] = day.split("-").map(Number);
  return new Date(year, month - 1, date + daysLater).getTime() / 1000;
}

/** Distinct tags of a comma-separated text. */
export const tagsOf = (text) => [
  ...new Set(
    text
      .split(",")
      .map((tag) => tag.trim().replace(/\s+/g, " "))
      .filter(Boolean),
  ),
];
