// Sources of annotation documents: with the owner's token, or with an annotator's link.

import { Calls, download, Refused } from "../../owner/calls.js";

/** Owner access: any annotator's document on a library utterance, plus the others' read-only. */
export function ownersSource(root, name, annotator) {
  const calls = new Calls(root, "library/");
  const by = (who) => calls.get(`annotations/by/${encodeURIComponent(name)}?${new URLSearchParams({ annotator: who })}`);
  return {
    canLayer: true,
    key: `${root} ${name} ${annotator}`,
    load: () => by(annotator),
    send: (edit) => calls.post("annotations/edit", { name, annotator, ...edit }),
    others: async () => (await calls.get(`annotations/of/${encodeURIComponent(name)}`)).map((one) => one.annotator),
    other: by,
    give: async (format, ending) => {
      const query = new URLSearchParams({ annotator, format });
      return download(await calls.call("GET", `annotations/file/${encodeURIComponent(name)}?${query}`), `annotation-${name}${ending}`);
    },
    take: (file, format) => {
      const about = { "X-Studio-Name": name, "X-Studio-Annotator": encodeURIComponent(annotator), "X-Studio-Format": format };
      return calls.json("POST", "annotations/import", file, { "Content-Type": "application/octet-stream", ...about });
    },
    shared: async () => (await calls.get(`annotations/agreement/${encodeURIComponent(name)}`)).layers,
    agreement: (layer, collar) => calls.get(`annotations/agreement/${encodeURIComponent(name)}?${new URLSearchParams({ layer, collar_ms: collar || 0 })}`),
  };
}

/** API calls authorised by an annotator's link. */
export class LinkCalls {
  constructor(root, token) {
    Object.assign(this, { root, token });
  }

  async call(path, body) {
    const headers = { Authorization: `Bearer ${this.token}`, ...(body ? { "Content-Type": "application/json" } : {}) };
    const init = { method: body ? "POST" : "GET", headers, cache: "no-store", body: body && JSON.stringify(body) };
    const answer = await fetch(new URL(`annotation/${path}`, this.root), init).catch(() => null);
    if (!answer) throw new Refused(0);
    if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({ message: `status ${answer.status}` })));
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
