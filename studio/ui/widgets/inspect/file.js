// An inspection as a stand-alone file with embedded data: the viewer alone, which fetches nothing.

import { fromBase64, parse } from "../timeline/bundle.js";
import { Viewer } from "./viewer.js";

export function startFile(element) {
  const page = element.querySelector(".inspect");
  const [data, measured, attention] = ["bundle", "prosody", "attention"].map((name) => document.getElementById(name));
  const viewer = new Viewer(page, parse(fromBase64(data.textContent)), data.dataset.name);
  viewer.take(parse(fromBase64(measured.textContent)));
  if (attention?.textContent) viewer.takeAttention(parse(fromBase64(attention.textContent)));
}
