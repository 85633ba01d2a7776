// A comparison as a stand-alone file with embedded data.

import { fromBase64, parse } from "../timeline/bundle.js";
import { Viewer } from "./viewer.js";

const NONE = 128;

const read = (id) => {
  const part = document.getElementById(id);
  return part && parse(fromBase64(part.textContent));
};

/** Spectral difference of a pair; negated if the file stores the reverse order. */
async function difference(one, other, stretch) {
  const stored = read(`difference-${one}-${other}-${stretch}`);
  if (stored) return stored;
  const reversed = read(`difference-${other}-${one}-${stretch}`);
  if (!reversed) return null;
  return { view: { ...reversed.view, one, other }, db: reversed.db.map((value) => value && 2 * NONE - value) };
}

export function startFile(element) {
  new Viewer(element.querySelector(".compare"), read("bundle"), difference).take(read("words"));
}
