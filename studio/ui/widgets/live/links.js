// The links of a finished utterance: downloads, and pages that open it.

import { clipMime } from "../share/clip.js";

/** `urls` are those of the utterance, null without one; `settings` are the entries of its settings. */
export function updateLinks(root, server, urls, settings) {
  const hasLibrary = document.querySelector('.masthead a[href$="/library"]') !== null;
  for (const link of root.querySelectorAll("[data-get]")) {
    link.hidden = !urls || (link.dataset.get === "keep" && !hasLibrary);
    const path = urls && paths(urls, query(settings))[link.dataset.get];
    if (path) link.href = new URL(path, server).href;
  }
  root.querySelector('[data-do="clip"]').hidden = !clipMime();
  for (const name of ["curl", "clip", "html"]) root.querySelector(`[data-do="${name}"]`).disabled = !urls;
}

function paths({ wav_url: wav, trace_url: trace }, settings) {
  const page = (address) => trace.replace(/^traces\/(.+)\.trace$/, address);
  return {
    wav,
    trace,
    heard: `${wav}?as_heard=1`,
    srt: page("traces/$1.srt"),
    vtt: page("traces/$1.vtt"),
    inspect: page("inspect?trace=$1"),
    compare: page(`compare?trace=$1${settings}`),
    keep: page("library?keep=$1"),
  };
}

/** The changed settings as a query string. */
function query(settings) {
  const changed = [...(settings ?? [])].filter(([, value]) => value !== null);
  return changed.length ? `&${new URLSearchParams(changed)}` : "";
}
