// Latency and stall figures.

import { decimal, t } from "../page/translate.js";

const ms = (value) => (value === null || value === undefined ? "–" : `${Math.round(value)} ms`);
const seconds = (value) =>
  value < 95 ? ms(value) : value < 9950 ? `${decimal(value / 1000, 1)} s` : `${Math.round(value / 1000)} s`;

const CAUSES = {
  pause: t("after a pause in typing"),
  finish: t("after Finish"),
  queue: t("after waiting in the queue"),
  key: t("from the last word it needed to the first sound"),
};

const TOO_SLOW = { compute: t("computer"), network: t("network") };
const PACE = t("for slow typing: fewer, longer pauses");
const FIRST = t("after the first word, typing included");
/** A delay: milliseconds, or seconds where it is nearly one or more. */
export const delay = (value) =>
  value < 950 ? ms(value) : value < 9950 ? `${decimal(value / 1000, 2)} s` : `${Math.round(value / 1000)} s`;

export class Figures {
  constructor(root) {
    this.root = root;
    this.compared = { live: null, old: null };
    this.notes = Array.from(root.querySelectorAll("[data-sub]"), (node) => [node.dataset.sub, node.textContent]);
    this.clear();
  }

  part(kind, name) {
    return this.root.querySelector(`[data-${kind}="${name}"]`);
  }

  write(name, value, note) {
    const main = this.part("figure", name);
    if (main && main.textContent !== value) main.textContent = value;
    const sub = this.part("sub", name);
    if (note && sub.textContent !== note) sub.textContent = note;
  }

  clear() {
    for (const [name, note] of this.notes) this.write(name, "–", note);
    this.part("figure", "stalls").classList.remove("bad");
  }

  show(f) {
    const server = f.server_ms === null ? "" : t("{time} of it in the server", { time: delay(f.server_ms) });
    const cause = f.first_audio_cause === "key" ? "" : CAUSES[f.first_audio_cause];
    this.write(
      "key",
      f.first_audio_ms === null ? "–" : delay(f.first_audio_ms),
      [server, cause].filter(Boolean).join(", ") || CAUSES.key,
    );
    this.write("first", f.from_first_word_ms === null ? "–" : seconds(f.from_first_word_ms), FIRST);
    this.write(
      "rtf",
      f.rtf === null ? "–" : `${decimal(f.rtf, 2)} s`,
      f.rtf_final ? t("for one second of speech") : t("for one second of speech, so far"),
    );
    const parts = Object.entries(TOO_SLOW)
      .filter(([reason]) => f[reason].count)
      .map(([reason, name]) => `${name} ${f[reason].count}`);
    this.write(
      "stalls",
      f.stalls.count ? `${f.stalls.count} · ${seconds(f.stalls.ms)}` : "0",
      parts.join(", ") || t("computer or network too slow"),
    );
    this.part("figure", "stalls").classList.toggle("bad", f.stalls.count > 0);
    this.write(
      "text",
      f.text.count ? `${f.text.count} · ${seconds(f.text.ms)}` : "0",
      f.credit.count ? t("and {time} for this page", { time: seconds(f.credit.ms) }) : t("speech ahead of typing"),
    );
    this.write("buffered", ms(f.buffered_ms), t("{time} computed", { time: seconds(f.audio_ms) }));
    const hasPace = f.mode === "keyboard" && f.typed_wpm && f.spoken_wpm;
    this.write(
      "pace",
      "",
      hasPace
        ? t("You type {typed} words per minute, the voice speaks {spoken}.", {
            typed: Math.round(f.typed_wpm),
            spoken: Math.round(f.spoken_wpm),
          })
        : PACE,
    );
    if (f.mode !== "chat") this.compare(f.mode === "old" ? "old" : "live", f.from_first_word_ms);
  }

  /** Show the time from the first finished word to the first sound, for live and sentence mode. */
  compare(mode, value) {
    if (value === null || value === undefined) return;
    this.compared[mode] = value;
    const longest = Math.max(...Object.values(this.compared).map((v) => v ?? 0));
    for (const [name, time] of Object.entries(this.compared)) {
      this.part("time", name).textContent = time === null ? "–" : seconds(time);
      this.part("bar", name).style.inlineSize = time === null ? "0" : `${Math.max(1.5, (62 * time) / longest)}%`;
    }
  }

  /** Reset the comparison for a new text. */
  clearComparison() {
    this.compared = { live: null, old: null };
    for (const name of ["live", "old"]) {
      this.part("time", name).textContent = "–";
      this.part("bar", name).style.inlineSize = "0";
    }
  }
}
