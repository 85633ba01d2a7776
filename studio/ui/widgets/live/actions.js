// Actions of the page's buttons, and copies of the utterance as a link or code.

const COPIED_MS = 2000;
const IMPORTS = "from pathlib import Path\n\nimport studio\nfrom studio.core.clips import write_wav\n";
const pythonString = (text) => JSON.stringify(text); // JSON strings are Python strings
const shellString = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Python code that speaks the text with these settings. */
export function asPython({ text, voice, seed, temperature, options }) {
  const settings = { voice: pythonString(voice), seed };
  if (temperature !== null) settings.temperature = temperature;
  for (const [name, value] of Object.entries(options)) {
    settings[name] = typeof value === "string" ? pythonString(value) : value;
  }
  const keywords = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
  const call = [pythonString(text), ...keywords].map((argument) => `    ${argument},\n`).join("");
  return `${IMPORTS}\nspoken = studio.synthesize(\n${call})\nwrite_wav(Path("speech.wav"), spoken.pcm, spoken.rate_hz)\n`;
}

/** The command that downloads the last utterance as heard. */
export const asCurl = (url) => `curl -o speech.wav ${shellString(url)}`;

/** Copy a text; the button of `name` confirms it, and the status line says what was copied. */
async function copy(page, name, text, confirmation) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    return page.status.show(
      "error",
      "The browser does not allow this page to use the clipboard. Copy from the address bar instead.",
    );
  }
  page.status.show("info", confirmation);
  const button = page.root.querySelector(`[data-do="${name}"]`);
  button.dataset.label ??= button.textContent;
  button.textContent = "Copied";
  clearTimeout(button.timer);
  button.timer = setTimeout(() => (button.textContent = button.dataset.label), COPIED_MS);
  return undefined;
}

export const ACTIONS = {
  speak(page) {
    if (page.phase !== "idle") return page.pause();
    if (!page.text.value.trim()) {
      page.status.show("info", "The field is empty: type something, or choose an example.", "empty");
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
    page.clear();
    page.text.focus();
  },
  replay: (page) => page.post({ type: "replay" }),
  old: (page) => page.post({ type: "old" }),
  rest(page) {
    page.status.clear();
    page.post({ type: "rest" });
    page.text.focus(); // the button disappears
  },
  link: (page) =>
    copy(
      page,
      "link",
      page.address.link,
      page.address.isTooLong ? "Link copied, without the text: it is too long for a link." : "Link copied.",
    ),
  python: (page) =>
    copy(
      page,
      "python",
      asPython({ text: page.text.value, ...page.settings.selected }),
      "Python code copied: it speaks the text with these settings.",
    ),
  curl: (page) =>
    copy(
      page,
      "curl",
      asCurl(page.root.querySelector('[data-get="heard"]').href),
      "Command copied: it downloads the speech as heard.",
    ),
  sample(page) {
    const name = page.settings.speaker.selectedOptions[0]?.text;
    page.post({ type: "sample", text: `Hello, I am ${name}. I will say what you type.` });
  },
  llm(page) {
    const text = page.root.querySelector("#live-llm").value;
    if (!text.trim()) return page.status.show("info", "The model needs a text to type.");
    return page.post({ type: "llm", text, rate: Number(page.root.querySelector("#live-rate").value) });
  },
  race(page) {
    if (page.race.isRunning) return page.race.stop();
    page.history.stop();
    page.makeWay();
    return page.race.start(page.text.value, page.rateHz);
  },
  reseed: (page) => page.settings.reseed(),
};
