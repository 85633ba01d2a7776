// Sources of annotation documents, of the owner or an annotator's link, and the owner's start form.

import { Calls, download, isOwner, Refused } from "../../owner/calls.js";
import { button, h } from "../../rate/dom.js";
import { Annotator } from "./annotator.js";

/** Owner access: any annotator's document on a library utterance, plus the others' read-only. */
export function ownersSource(root, name, annotator) {
  const calls = new Calls(root, "library/");
  const by = (who) =>
    calls.get(`annotations/by/${encodeURIComponent(name)}?${new URLSearchParams({ annotator: who })}`);
  return {
    canLayer: true,
    key: `${root} ${name} ${annotator}`,
    load: () => by(annotator),
    send: (edit) => calls.post("annotations/edit", { name, annotator, ...edit }),
    others: async () => (await calls.get(`annotations/of/${encodeURIComponent(name)}`)).map((one) => one.annotator),
    other: by,
    download: async (format, ending) => {
      const query = new URLSearchParams({ annotator, format });
      return download(
        await calls.call("GET", `annotations/file/${encodeURIComponent(name)}?${query}`),
        `annotation-${name}${ending}`,
      );
    },
    upload: (file, format) => {
      const about = {
        "X-Studio-Name": name,
        "X-Studio-Annotator": encodeURIComponent(annotator),
        "X-Studio-Format": format,
      };
      return calls.json("POST", "annotations/import", file, { "Content-Type": "application/octet-stream", ...about });
    },
    shared: async () => (await calls.get(`annotations/agreement/${encodeURIComponent(name)}`)).layers,
    agreement: (layer, collar) =>
      calls.get(
        `annotations/agreement/${encodeURIComponent(name)}?${new URLSearchParams({ layer, collar_ms: collar || 0 })}`,
      ),
  };
}

/** API calls authorised by an annotator's link. */
export class LinkCalls {
  constructor(root, token) {
    this.root = root;
    this.token = token;
  }

  async call(path, body) {
    const headers = { Authorization: `Bearer ${this.token}`, ...(body ? { "Content-Type": "application/json" } : {}) };
    /** @type {RequestInit} */
    const init = { method: body ? "POST" : "GET", headers, cache: "no-store", body: body && JSON.stringify(body) };
    const answer = await fetch(new URL(`annotation/${path}`, this.root), init).catch(() => null);
    if (!answer) throw new Refused(0);
    if (!answer.ok)
      throw new Refused(answer.status, await answer.json().catch(() => ({ message: `status ${answer.status}` })));
    return answer;
  }

  json = async (path, body) => (await this.call(path, body)).json();

  /** The annotator's own document on an utterance of the assignment. */
  source = (number) => ({
    canLayer: false,
    key: `${this.root} ${number} ${this.token.slice(-16)}`,
    load: () => this.json(`marks/${number}`),
    send: (edit) => this.json(`edit/${number}`, edit),
  });
}

const NAME_KEY = "studio-annotator";

/** Offer annotation: `name` of the library entry or empty; `keepHref` links to the page that adds it. */
export function offerAnnotation(viewer, root, name, keepHref) {
  const container = viewer.find(".annotation");
  container.hidden = false;
  const head = () => h("div", { class: "annotation-head" }, h("h2", { text: "Annotation" }));
  if (!name) {
    const how = keepHref
      ? h("a", { class: "button", href: keepHref, text: "Save to library" })
      : h("a", { class: "button", href: "./library", text: "Open the Library" });
    const text = keepHref
      ? "Add this utterance to the library to annotate it."
      : "Add the file to the library to annotate it.";
    return container.replaceChildren(head(), h("p", { class: "muted", text }), h("div", { class: "actions" }, how));
  }
  if (!isOwner()) return container.replaceChildren();
  const linked = new URLSearchParams(location.search).get("annotator");
  const input = h("input", { type: "text", id: "annotation-name", maxlength: 80, autocomplete: "off", required: true });
  input.value = linked ?? localStorage.getItem(NAME_KEY) ?? "";
  const wrong = h("p", { class: "wrong", role: "alert" });
  const begin = async (event) => {
    event?.preventDefault();
    const who = input.value.trim();
    if (!who) return;
    wrong.textContent = "";
    try {
      await Annotator.open(viewer, ownersSource(root, name, who), container);
      if (!linked) localStorage.setItem(NAME_KEY, who);
      viewer.find(".annotation-head").append(button("Change name", () => ask()));
    } catch (error) {
      wrong.textContent = error.message;
      if (!container.contains(form)) ask();
    }
  };
  const form = h(
    "form",
    { class: "begin", on: { submit: begin } },
    h("label", { for: input.id, text: "Annotator name" }),
    input,
    h("button", { type: "submit", class: "primary", text: "Annotate" }),
    wrong,
  );
  const ask = () => {
    viewer.annotator?.close();
    viewer.annotator = viewer.annotationInput = null;
    viewer.scene.laneMarks([]);
    container.replaceChildren(head(), form);
  };
  ask();
  if (input.value) begin();
  return undefined;
}
