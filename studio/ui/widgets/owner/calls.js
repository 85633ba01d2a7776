// Calls of the routes that want the owner's token, which lies in this tab alone.

const KEPT = "studio-owner";
const PATIENCE_MS = 300000; // sounds are levelled before an answer comes

export const token = () => sessionStorage.getItem(KEPT) ?? "";

export const AGAIN_MS = 5000; // until a call that failed for a moment is sent again
const TEMPORARY = new Set([0, 408, 425, 429, 500, 502, 503, 504]);

/** The server refused a call; or it cannot be reached (status 0). */
export class Refused extends Error {
  constructor(status, { code = "", message = "the server cannot be reached; try again" } = {}) {
    super(message.charAt(0).toUpperCase() + message.slice(1));
    Object.assign(this, { status, code });
  }

  /** Whether the same call may be answered a moment later. */
  get isTemporary() {
    return TEMPORARY.has(this.status);
  }
}

export class Calls {
  /** `root` is the server's address and `below` where its routes are; both end with a slash. */
  constructor(root, below) {
    Object.assign(this, { root, below });
  }

  get = (path) => this.json("GET", path);
  post = (path, body = {}) => this.json("POST", path, JSON.stringify(body), { "Content-Type": "application/json" });

  async json(method, path, body, headers) {
    return (await this.call(method, path, body, headers)).json();
  }

  async call(method, path, body, headers = {}) {
    const address = new URL(`${this.below}${path}`, this.root);
    const wanted = { method, body, cache: "no-store", headers: { ...headers, Authorization: `Bearer ${token()}` }, signal: AbortSignal.timeout(PATIENCE_MS) };
    const answer = await fetch(address, wanted).catch(() => null);
    if (!answer) throw new Refused(0);
    if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({ message: `status ${answer.status}` })));
    return answer;
  }
}

/** Hand a file that came with an answer to the browser's downloads. */
export async function download(answer, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
