// A comparison in a file of its own: everything is in the page itself.

import { fromBase64, parse } from "../timeline/bundle.js";
import { Viewer } from "./viewer.js";

const NONE = 128;

const read = (id) => {
  const part = document.getElementById(id);
  return part && parse(fromBase64(part.textContent));
};

/** The difference of a pair, turned around where the file holds it the other way. */
async function difference(one, other, stretch) {
  const found = read(`difference-${one}-${other}-${stretch}`);
  if (found) return found;
  const turned = read(`difference-${other}-${one}-${stretch}`);
  if (!turned) return null;
  return { view: { ...turned.view, one, other }, db: turned.db.map((value) => value && 2 * NONE - value) };
}

export function startFile(element) {
  new Viewer(element.querySelector(".compare"), read("bundle"), difference).take(read("words"));
}
