// HTTP client of the owner's routes: a cookie, which scripts cannot read, signs the browser in.

const TIMEOUT_MS = 300000; // level normalization of uploads takes time

/** Whether the page was served to a browser that is signed in as the owner. */
export const isOwner = () => "owner" in document.body.dataset;

export const AGAIN_MS = 5000; // delay before a temporary failure is retried
const TEMPORARY = new Set([0, 408, 425, 429, 500, 502, 503, 504]);

/** An error response, or no connection (status 0). */
export class Refused extends Error {
  constructor(status, { code = "", message = "the server cannot be reached; try again" } = {}) {
    super(message.charAt(0).toUpperCase() + message.slice(1));
    this.status = status;
    this.code = code;
  }

  /** Whether a retry may succeed. */
  get isTemporary() {
    return TEMPORARY.has(this.status);
  }
}

export class Calls {
  /** `root` is the server's URL, `below` the route prefix; both end with a slash. */
  constructor(root, below) {
    this.root = root;
    this.below = below;
  }

  get = (path) => this.json("GET", path);
  post = (path, body = {}) => this.json("POST", path, JSON.stringify(body), { "Content-Type": "application/json" });

  async json(method, path, body, headers) {
    return (await this.call(method, path, body, headers)).json();
  }

  async call(method, path, body, headers = {}) {
    const address = new URL(`${this.below}${path}`, this.root);
    const answer = await fetch(address, {
      method,
      body,
      cache: "no-store",
      headers,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).catch(() => null);
    if (!answer) throw new Refused(0);
    if (!answer.ok)
      throw new Refused(answer.status, await answer.json().catch(() => ({ message: `status ${answer.status}` })));
    return answer;
  }
}

/** Save a response body as a download. */
export const download = async (answer, name) => save(await answer.blob(), name);

/** Save a blob as a file. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
