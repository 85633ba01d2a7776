// The Inspect page: opens a trace or a recording in the viewer.

import { isOwner } from "../owner/calls.js";
import { h } from "../rate/dom.js";
import { parse } from "../timeline/bundle.js";
import { offerAnnotation } from "./annotate/sources.js";
import { showRatings } from "./ratings/ratings.js";
import { fetchForcingVoices, TeacherForcingForm } from "./teacher_forcing_form.js";
import { Viewer } from "./viewer.js";

const MAX_MB = 64;
const MAX_LISTED = 8;
const TO_RESULTS = "This clip belongs to a listening test, which only the owner can open: sign in on the Results page.";
const TO_LIBRARY = "This utterance is in the library, which only the owner can open: sign in on the Library page.";

/** Start the page; `root` is the server's URL with a trailing slash. */
export function start(element, { base, server: root }) {
  const page = element.querySelector(".inspect");
  const status = page.querySelector(".status");
  const text = page.querySelector(".wav-text input");
  let viewer = null;
  let latest = 0; // number of the newest request; older answers are dropped

  const showMessage = (message, level = "") => {
    status.textContent = message;
    status.dataset.level = level;
  };

  /**
   * Open an utterance. `request(part)` fetches view, prosody or attention; `named` is its name in the page's URL,
   * `{ trace }`, `{ kept }` or `{ rated }`; `file` is the user's recording it came from, if any.
   */
  async function open(what, request, /** @type {any} */ named = {}, file = null) {
    const mine = ++latest;
    const fetched = async (part) => {
      const answer = await request(part);
      if (!answer.ok) throw new Error(await why(answer));
      return parse(await answer.arrayBuffer());
    };
    showMessage(`Opening ${what} …`);
    try {
      const [parts, sending] = await Promise.all([fetched("view"), prepared]);
      if (mine !== latest) return;
      viewer?.close();
      const opened = new Viewer(page, parts, what);
      viewer = opened;
      opened.offerAttention(() => fetched("attention"), lacks(parts.view, sending?.forcing));
      const isRecording = parts.view.facts.about.source === "recording";
      sending?.through.offer(isRecording || named.trace ? file : null);
      offerLinks(named);
      annotate(opened, named);
      rated(opened, named);
      showMessage("");
      fetched("prosody").then(
        (measured) => opened.take(measured),
        () => {},
      ); // optional
    } catch (error) {
      if (mine === latest)
        showMessage(error instanceof TypeError ? "The server cannot be reached." : error.message, "error");
    }
  }

  /** The teacher-forcing form and the voices that support it; null on failure. */
  async function prepare() {
    try {
      const forcing = await fetchForcingVoices(root);
      const on = { text: () => text.value, opened: sent, why };
      return forcing && { forcing, through: new TeacherForcingForm(page, root, forcing, on) };
    } catch {
      return null; // the viewer works without it
    }
  }
  const prepared = prepare();

  /** Open the trace of a teacher-forced recording, and put it into the page's URL. */
  function sent(token, name, file) {
    history.replaceState(null, "", `${location.pathname}?trace=${encodeURIComponent(token)}`);
    open(name, (part) => fetch(`${root}traces/${encodeURIComponent(token)}.${part}`), { trace: token }, file);
  }

  /** Why attention is unavailable; empty where a voice of the family exists or the families are unknown. */
  function lacks({ facts }, forcing) {
    const { family } = facts.about;
    if (!family || !forcing?.families || forcing.families.includes(family)) return "";
    return `Attention is unavailable: no voice here of the family ${family} supports teacher forcing.`;
  }

  const hasLibrary = () => Boolean(document.querySelector('.masthead a[href$="/library"]'));

  function annotate(opened, { trace = "", kept: name = "" }) {
    if (!hasLibrary()) return;
    if (opened === viewer) offerAnnotation(opened, root, name, trace && `./library?keep=${encodeURIComponent(trace)}`);
  }

  function offerLinks({ trace = "", kept: name = "" }) {
    const [against, keep] = [page.querySelector(".against"), page.querySelector(".keep")];
    against.hidden = !trace && !name;
    against.href = `./compare?${new URLSearchParams(trace ? { trace } : { kept: name })}`;
    keep.hidden = !trace || !hasLibrary();
    keep.href = `./library?keep=${encodeURIComponent(trace)}`;
  }

  /** Show the ratings of a listening test's clip. */
  async function rated(opened, { rated: request = null }) {
    const container = page.querySelector(".ratings");
    container.hidden = true;
    if (!request) return;
    try {
      const answer = await request("ratings");
      if (!answer.ok) throw new Error(await why(answer));
      const ratings = await answer.json();
      if (opened === viewer) showRatings(container, ratings);
    } catch (error) {
      if (opened === viewer)
        showMessage(error instanceof TypeError ? "The server cannot be reached." : error.message, "error");
    }
  }

  /** Fetch a part of a listening test's clip with the owner's token. */
  async function ofTest({ test, script, system }, part) {
    if (!isOwner()) throw new Error(TO_RESULTS);
    const path = `mos/owner/campaigns/${encodeURIComponent(test)}/sound/${part}?${new URLSearchParams({ script, system })}`;
    const answer = await fetch(`${root}${path}`);
    if (answer.status === 403) throw new Error(TO_RESULTS);
    return answer;
  }

  /** Fetch a part of a library utterance with the owner's token. */
  async function fromLibrary(name, part) {
    if (!isOwner()) throw new Error(TO_LIBRARY);
    const answer = await fetch(`${root}library/${part}/${encodeURIComponent(name)}`);
    if (answer.status === 403) throw new Error(TO_LIBRARY);
    return answer;
  }

  /** List the newest utterances of the library, for its owner. */
  async function listNewest() {
    if (!isOwner() || !hasLibrary()) return;
    const answer = await fetch(`${root}library/entries`).catch(() => null);
    const { entries } = answer?.ok ? await answer.json() : { entries: [] };
    const rows = entries.slice(0, MAX_LISTED).map((entry) => {
      const label = entry.title || entry.text || "a recording without text";
      const link = h("a", { href: `./inspect?kept=${entry.name}`, text: label });
      return h("li", {}, link, h("small", { text: `${(entry.duration_ms / 1000).toFixed(1)} s` }));
    });
    const list = page.querySelector(".recent");
    list.querySelector("ul").replaceChildren(...rows);
    list.hidden = !rows.length;
  }

  function upload(file) {
    if (file.size > MAX_MB * 1e6)
      return showMessage(`${file.name} is larger than ${MAX_MB} MB; use the studio inspect command instead.`, "error");
    const headers = { "Content-Type": "application/octet-stream", "X-Studio-Text": encodeURIComponent(text.value) };
    const path = { view: "open", prosody: "prosody", attention: "attention" };
    return open(
      file.name,
      (part) => fetch(`${root}inspect/${path[part]}`, { method: "POST", body: file, headers }),
      {},
      file,
    );
  }

  async function openSample() {
    const answer = await fetch(`${base}/inspect/sample.trace`).catch(() => null);
    if (!answer?.ok) return showMessage("The server cannot be reached.", "error");
    return upload(new File([await answer.blob()], "the sample"));
  }

  page.querySelector(".sample").addEventListener("click", openSample);
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
  let early = window.earlyView; // requested by page/boot.js
  const fromStore = (part) => {
    const pending = part === "view" && early;
    if (pending) early = null;
    return pending || fetch(`${root}traces/${encodeURIComponent(trace)}.${part}`);
  };
  if (trace) open("the trace", fromStore, { trace });
  else if (name) open("the utterance", (part) => fromLibrary(name, part), { kept: name });
  /** @type {any} */
  const sound = Object.fromEntries(["test", "script", "system"].map((one) => [one, address.get(one)]));
  if (!trace && !name && sound.test) {
    const request = (part) => ofTest(sound, part);
    open("the clip", request, { rated: request });
  }
  if (!trace && !name && !sound.test) listNewest();
  page.dataset.ready = "";
}

async function why(answer) {
  try {
    return (await answer.json()).message;
  } catch {
    return `The server answered ${answer.status}.`;
  }
}
