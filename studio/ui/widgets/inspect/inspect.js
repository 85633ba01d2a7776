// The Inspect page: opens a trace or a recording, and looks at it with the viewer.

import { token } from "../owner/calls.js";
import { fromBase64, parse } from "../timeline/bundle.js";
import { Viewer } from "./viewer.js";

const MAX_MB = 64;
const TO_RESULTS = "This sound is of a listening test, which wants the owner's token: open it from the Results page.";
const TO_LIBRARY = "This utterance is in the library, which wants the owner's token: open it from the Library page.";

/** Start the page; `root` is the server's address with a slash at its end. */
export function start(element, root) {
  const page = element.querySelector(".inspect");
  const status = page.querySelector(".status");
  const text = page.querySelector(".wav-text input");
  let viewer = null;
  let asked = 0; // only the answer to the last question is shown

  const tell = (message, level = "") => {
    status.textContent = message;
    status.dataset.level = level;
  };

  /**
   * `request` fetches a part, view or prosody; `named` says how an address names it, as `{ trace }` or `{ kept }`;
   * `file` is a recording of the caller's own, if it is one or came of one.
   */
  async function open(what, request, named = {}, file = null) {
    const mine = ++asked;
    const fetched = async (part) => {
      const answer = await request(part);
      if (!answer.ok) throw new Error(await why(answer));
      return parse(await answer.arrayBuffer());
    };
    tell(`Opening ${what} …`);
    try {
      const [parts, sending] = await Promise.all([fetched("view"), prepared]);
      if (mine !== asked) return;
      viewer?.close();
      const mineViewer = (viewer = new Viewer(page, parts, what));
      mineViewer.offerAttention(() => fetched("attention"), lacks(parts.view, sending?.takers));
      const isRecording = parts.view.facts.about.source === "recording";
      sending?.through.offer(isRecording || named.trace ? file : null);
      offer(named);
      annotate(mineViewer, named);
      rated(mineViewer, named);
      tell("");
      fetched("prosody").then((measured) => mineViewer.take(measured), () => {}); // the picture stands without it
    } catch (error) {
      if (mine === asked) tell(error instanceof TypeError ? "The server cannot be reached." : error.message, "error");
    }
  }

  /** The part of the page that sends recordings through voices, and which voices take them; nothing where that fails. */
  async function prepare() {
    try {
      const { Through, fetchTakers } = await import("./through.js");
      const takers = await fetchTakers(root);
      const on = { text: () => text.value, opened: sent, why };
      return takers && { takers, through: new Through(page, root, takers, on) };
    } catch {
      return null; // what is open can be looked at all the same
    }
  }
  const prepared = prepare();

  /** A recording went through a voice: its trace is opened, by an address that can be opened again. */
  function sent(token, name, file) {
    history.replaceState(null, "", `${location.pathname}?trace=${encodeURIComponent(token)}`);
    open(name, (part) => fetch(`${root}traces/${encodeURIComponent(token)}.${part}`), { trace: token }, file);
  }

  /** Why the nets here cannot look at the frames of what is open; nothing where one can, or nobody knows. */
  function lacks({ facts }, takers) {
    const { family } = facts.about;
    if (!family || !takers?.families || takers.families.includes(family)) return "";
    return `Attention: no voice here of the family ${family} can be given its frames again.`;
  }

  const hasLibrary = () => Boolean(document.querySelector('.masthead a[href$="/library"]'));

  /** Its scripts come only here: a file of its own fetches nothing, and has no library. */
  async function annotate(mineViewer, { trace = "", kept: name = "" }) {
    if (!hasLibrary()) return;
    const { offer: offerAnnotation } = await import("./annotate/owners.js");
    if (mineViewer === viewer) offerAnnotation(viewer, root, name, trace && `./library?keep=${encodeURIComponent(trace)}`);
  }

  function offer({ trace, kept: name }) {
    const [against, keep] = [page.querySelector(".against"), page.querySelector(".keep")];
    against.hidden = !trace && !name;
    against.href = `./compare?${new URLSearchParams(trace ? { trace } : { kept: name })}`;
    keep.hidden = !trace || !hasLibrary();
    keep.href = `./library?keep=${encodeURIComponent(trace)}`;
  }

  /** What raters said of a sound of a listening test; its scripts come only here, as those of annotation do. */
  async function rated(mineViewer, { rated: request }) {
    const place = page.querySelector(".ratings");
    place.hidden = true;
    if (!request) return;
    try {
      const [{ showRatings }, answer] = await Promise.all([import("./ratings/ratings.js"), request("ratings")]);
      if (!answer.ok) throw new Error(await why(answer));
      const found = await answer.json();
      if (mineViewer === viewer) showRatings(place, found);
    } catch (error) {
      if (mineViewer === viewer) tell(error instanceof TypeError ? "The server cannot be reached." : error.message, "error");
    }
  }

  /** A part of a listening test's sound, for its owner. */
  async function ofTest({ test, script, system }, part) {
    if (!token()) throw new Error(TO_RESULTS);
    const asked = `mos/owner/campaigns/${encodeURIComponent(test)}/sound/${part}?${new URLSearchParams({ script, system })}`;
    const answer = await fetch(`${root}${asked}`, { headers: { Authorization: `Bearer ${token()}` } });
    if (answer.status === 403) throw new Error(TO_RESULTS);
    return answer;
  }

  /** What the library has, for whoever gave the owner's token in this tab. */
  async function kept(name, part) {
    if (!token()) throw new Error(TO_LIBRARY);
    const answer = await fetch(`${root}library/${part}/${encodeURIComponent(name)}`, { headers: { Authorization: `Bearer ${token()}` } });
    if (answer.status === 403) throw new Error(TO_LIBRARY);
    return answer;
  }

  function upload(file) {
    if (file.size > MAX_MB * 1e6) return tell(`${file.name} is larger than ${MAX_MB} MB; use studio inspect for it.`, "error");
    const headers = { "Content-Type": "application/octet-stream", "X-Studio-Text": encodeURIComponent(text.value) };
    const path = { view: "open", prosody: "prosody", attention: "attention" };
    return open(file.name, (part) => fetch(`${root}inspect/${path[part]}`, { method: "POST", body: file, headers }), {}, file);
  }

  page.querySelector("input[type=file]").addEventListener("change", (e) => {
    if (e.target.files[0]) upload(e.target.files[0]);
    e.target.value = "";
  });
  for (const name of ["dragover", "dragleave", "drop"]) {
    page.addEventListener(name, (e) => {
      e.preventDefault();
      page.classList.toggle("over", name === "dragover");
      if (name === "drop" && e.dataTransfer.files[0]) upload(e.dataTransfer.files[0]);
    });
  }
  const address = new URLSearchParams(location.search);
  const [trace, name] = [address.get("trace"), address.get("kept")];
  let early = window.earlyView; // the page's head asked for it (studio/ui/page_head.py)
  const onShelf = (part) => {
    const asked = part === "view" && early;
    if (asked) early = null;
    return asked || fetch(`${root}traces/${encodeURIComponent(trace)}.${part}`);
  };
  if (trace) open("the trace", onShelf, { trace });
  else if (name) open("the utterance", (part) => kept(name, part), { kept: name });
  const sound = Object.fromEntries(["test", "script", "system"].map((one) => [one, address.get(one)]));
  if (!trace && !name && sound.test) {
    const request = (part) => ofTest(sound, part);
    open("the sound", request, { rated: request });
  }
  page.dataset.ready = "";
}

/** Show what the page itself holds, in a file of its own. */
export function startFile(element) {
  const page = element.querySelector(".inspect");
  const [data, measured, looked] = ["bundle", "prosody", "attention"].map((name) => document.getElementById(name));
  const viewer = new Viewer(page, parse(fromBase64(data.textContent)), data.dataset.name);
  viewer.take(parse(fromBase64(measured.textContent)));
  if (looked?.textContent) viewer.takeAttention(parse(fromBase64(looked.textContent)));
}

async function why(answer) {
  try {
    return (await answer.json()).message;
  } catch {
    return `The server answered ${answer.status}.`;
  }
}
