// Actions of the page's buttons, and copies of the utterance as a link or code.

import { t } from "../page/translate.js";
import { embedHtml, MAX_BYTES } from "../share/embed.js";
import { traceToken } from "./history/entries.js";
import { saveUtteranceClip } from "./utterance_clip.js";

const COPIED_MS = 2000;
const IMPORTS = "from pathlib import Path\n\nimport studio\nfrom studio.core.clips import write_wav\n";
const pythonString = (text) => JSON.stringify(text); // JSON strings are Python strings
const shellString = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Python code that speaks the text with these settings. */
export function asPython({ text, voice, seed, temperature, speed = 1, options }) {
  const settings = { voice: pythonString(voice), seed };
  if (temperature !== null) settings.temperature = temperature;
  if (speed !== 1) settings.speed = speed;
  for (const [name, value] of Object.entries(options)) {
    settings[name] = typeof value === "string" ? pythonString(value) : value;
  }
  const keywords = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
  const call = [pythonString(text), ...keywords].map((argument) => `    ${argument},\n`).join("");
  return `${IMPORTS}\nspoken = studio.synthesize(\n${call})\nwrite_wav(Path("speech.wav"), spoken.pcm, spoken.rate_hz)\n`;
}

/** The command that downloads the last utterance as heard. */
export const asCurl = (url) => `curl -o speech.wav ${shellString(url)}`;

/** The token of the last utterance's trace, if the field ends with its text; "" otherwise. */
function heardToken({ root, text, caption }) {
  const spoken = caption.text.join("").trim();
  const url = root.querySelector('[data-get="trace"]:not([hidden])')?.href;
  return spoken && text.value.trim().endsWith(spoken) ? traceToken(url) : "";
}

/** The bytes at an address; null if the server does not have them. */
async function fetched(url) {
  const response = await fetch(url).catch(() => null);
  return response?.ok ? response.arrayBuffer() : null;
}

/** Write to the clipboard; without HTTPS, by the old command. Whether that worked. */
async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const before = document.activeElement;
    const field = Object.assign(document.createElement("textarea"), { value: text, className: "sr-only" });
    document.querySelector(".live").append(field);
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    return isCopied;
  }
}

/** Copy a text; the button of `name` says so, and the status line what was copied. */
async function copy(page, name, text, confirmation, label = t("Copied")) {
  const isCopied = await write(text);
  if (isCopied) page.status.show("info", confirmation);
  else page.status.show("error", t("The browser does not allow this page to use the clipboard."));
  const button = page.root.querySelector(`[data-do="${name}"]`);
  button.dataset.label ??= button.textContent;
  button.textContent = isCopied ? label : t("Not allowed");
  clearTimeout(button.timer);
  button.timer = setTimeout(() => (button.textContent = button.dataset.label), COPIED_MS);
  return undefined;
}

export const ACTIONS = {
  speak(page) {
    if (page.phase !== "idle") return page.pause();
    if (!page.text.value.trim()) {
      page.status.show("info", t("The field is empty: type something, or choose an example."), "empty");
      return page.text.focus();
    }
    page.status.clear();
    page.player.resume();
    return page.post({ type: "speak", tMs: performance.timeOrigin + performance.now() });
  },
  finish(page) {
    page.post({ type: "finish" });
    page.text.setSelectionRange(page.text.value.length, page.text.value.length); // later text follows
  },
  stop(page) {
    page.post({ type: "stop", suspended: !page.player.isAwake });
    page.player.resume();
    page.clearRest();
  },
  clear(page) {
    if (page.editor.cleared) page.editor.adopt(page.editor.cleared);
    else page.clear();
    page.text.focus();
  },
  replay: (page) => page.post({ type: "replay" }),
  old: (page) => page.post({ type: "old" }),
  rest(page) {
    page.status.clear();
    page.post({ type: "rest" });
    page.text.focus(); // the button disappears
  },
  link(page) {
    const token = heardToken(page);
    const link = page.address.link(token);
    const { isTooLong } = page.address;
    const says = token
      ? t("It plays this speech while the server has it.")
      : isTooLong
        ? t("The text is too long for it.")
        : page.phase === "idle"
          ? ""
          : t("It has the text. Copy it again at the end to share this speech too.");
    return copy(
      page,
      "link",
      link,
      `${t("Link copied.")} ${says}`.trim(),
      isTooLong ? t("Copied without the text") : t("Copied"),
    );
  },
  python: (page) =>
    copy(
      page,
      "python",
      asPython({ text: page.text.value, ...page.settings.selected }),
      t("Python code copied: it speaks the text with these settings."),
    ),
  curl: (page) =>
    copy(
      page,
      "curl",
      asCurl(page.root.querySelector('[data-get="heard"]').href),
      t("Command copied: it downloads the speech as heard."),
    ),
  async html(page) {
    const url = page.root.querySelector('[data-get="heard"]').href;
    const wav = (await page.history.soundOf(page.play?.id)) ?? (await fetched(url));
    if (!wav) return page.status.show("error", t("The server no longer has this recording."));
    if (wav.byteLength > MAX_BYTES)
      return page.status.show("error", t("This speech is too long for HTML: at most 40 s. Save a clip instead."));
    return copy(
      page,
      "html",
      embedHtml(wav, page.caption.text.join("")),
      t("HTML copied: a player with the sound in it."),
    );
  },
  async clip(page) {
    const button = page.root.querySelector('[data-do="clip"]');
    const view = page.root.querySelector('[data-get="trace"]').href.replace(/\.trace$/, ".view");
    button.disabled = true;
    const says = (text) => (button.textContent = text || t("Save a clip"));
    try {
      await saveUtteranceClip(page, view, says);
    } catch (error) {
      console.error(error);
      says(t("The clip failed"));
    }
    button.disabled = false;
  },
  sample(page) {
    const name = page.settings.speaker.selectedOptions[0]?.text;
    page.post({ type: "sample", text: `Hello, I am ${name}. I will say what you type.` });
  },
  llm(page) {
    const text = page.root.querySelector("#live-llm").value;
    if (!text.trim()) return page.status.show("info", t("The chatbot needs a text to type."));
    return page.post({ type: "llm", text, rate: Number(page.root.querySelector("#live-rate").value) });
  },
  race(page) {
    if (page.race.isRunning) return page.race.stop();
    page.history.stop();
    page.stopAndStore();
    return page.race.start(page.text.value, page.rateHz);
  },
  reseed: (page) => page.settings.reseed(),
};
