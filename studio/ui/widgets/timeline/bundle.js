// Bundle format of one utterance (studio/inspection/bundle.py): a JSON header, then typed arrays.

const KINDS = { i16: Int16Array, i32: Int32Array, u8: Uint8Array, f32: Float32Array };

/** Parse a bundle into `view` (the header) and the arrays by name. */
export function parse(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const view = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const parts = { view };
  for (const { name, kind, at, count } of view.arrays) parts[name] = new KINDS[kind](buffer, 4 + length + at, count);
  return parts;
}

export const CAPTION_TYPES = { srt: "application/x-subrip", vtt: "text/vtt" };

/** The captions of a view as a file, in the time of the sound as it is played; null where no word has a time. */
export function captionsOf({ captions }, format) {
  return captions && new Blob([captions[format]], { type: CAPTION_TYPES[format] });
}

/** Decode base64 to an ArrayBuffer. */
export function fromBase64(text) {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let k = 0; k < binary.length; k++) bytes[k] = binary.charCodeAt(k);
  return bytes.buffer;
}
