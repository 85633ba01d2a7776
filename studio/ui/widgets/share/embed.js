// Speech as HTML for another page: the sound is inside, so that it plays without this server.

export const MAX_BYTES = 2_000_000; // of a WAV file: 40 s at 24 kHz
const CHUNK = 0x8000; // bytes in one call
const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text) => text.replace(/[&<>"]/g, (char) => ESCAPES[char]);

function base64(bytes) {
  let binary = "";
  for (let at = 0; at < bytes.length; at += CHUNK) binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(binary);
}

/** A figure with a player and the text; `wav` is an ArrayBuffer. */
export function embedHtml(wav, text) {
  const sound = `data:audio/wav;base64,${base64(new Uint8Array(wav))}`;
  return `<figure><audio controls src="${sound}"></audio><figcaption>${escaped(text.trim())}</figcaption></figure>\n`;
}
