// What was said, as a link and as code that says it again.

const quoted = (text) => JSON.stringify(text); // Python reads JSON's strings
const IMPORTS = "from pathlib import Path\n\nimport studio\nfrom studio.core.clips import write_wav\n";
const shell = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Python that speaks the text with what is set: {text, voice, seed, temperature, options}. */
export function asPython({ text, voice, seed, temperature, options }) {
  const set = { voice: quoted(voice), seed };
  if (temperature !== null) set.temperature = temperature;
  for (const [name, value] of Object.entries(options)) set[name] = typeof value === "string" ? quoted(value) : value;
  const given = Object.entries(set).map(([name, value]) => `${name}=${value}`);
  const call = [quoted(text), ...given].map((one) => `    ${one},\n`).join("");
  return `${IMPORTS}\nspoken = studio.synthesize(\n${call})\nwrite_wav(Path("speech.wav"), spoken.pcm, spoken.rate_hz)\n`;
}

/** The command that fetches the sound of the last utterance, as it was heard. */
export function asCurl(url) {
  return `curl -o speech.wav ${shell(url)}`;
}

/** Put a text on the clipboard; where the browser has none for this page, false. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
