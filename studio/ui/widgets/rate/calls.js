// Calls of the /mos routes: whatever may pass (no network, a server that starts again, too many calls) is tried again.

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15000;
const PATIENCE_MS = 20000;
const SOUND_PATIENCE_MS = 90000;

/** The server understood, and said no. */
export class Refused extends Error {
  constructor(status, said) {
    super(said.message ?? `status ${status}`);
    this.status = status;
    this.code = said.code ?? "";
  }
}

export class Calls {
  /** `on` has `waiting(isWaiting)`, told while a call is tried again, and `stranger()`, asked for a new token. */
  constructor(server, on) {
    this.server = server; // ends with a slash
    this.on = on;
    this.token = null;
  }

  greet = (campaign, key) => this.json("GET", `greet?${new URLSearchParams({ campaign, key })}`);
  join = (who) => this.json("POST", "join", who);
  next = () => this.json("GET", "next");
  stage = (stage, data) => this.json("POST", "stage", { stage, data });
  answer = (answer) => this.json("POST", "answer", answer);
  withdraw = () => this.json("POST", "withdraw", {});

  json(method, path, body) {
    return this.call(method, path, body, PATIENCE_MS, (answer) => answer.json());
  }

  /** The bytes of a sound. */
  sound(path) {
    return this.call("GET", path, undefined, SOUND_PATIENCE_MS, (answer) => answer.arrayBuffer());
  }

  async call(method, path, body, patienceMs, read) {
    const isRaters = this.token !== null && !/^(greet|join)/.test(path);
    let mayAsk = isRaters;
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(LONGEST_WAIT_MS, 2 * waitMs)) {
      let answer = null;
      try {
        answer = await fetch(new URL(path, this.server), this.request(method, body, isRaters, patienceMs));
        if (answer.ok) {
          const got = await read(answer);
          this.on.waiting(false);
          return got;
        }
      } catch (error) {
        if (error instanceof SyntaxError) throw error; // an answer that is no JSON will not become any
        answer = null; // no network, or none for too long
      }
      if (answer && answer.status !== 429 && answer.status < 500) {
        if (!mayAsk || ![401, 403].includes(answer.status)) throw await refusal(answer);
        mayAsk = false;
        await this.on.stranger();
        continue;
      }
      this.on.waiting(true);
      const told = Number(answer?.headers.get("Retry-After"));
      await pause(told > 0 ? Math.min(LONGEST_WAIT_MS, 1000 * told) : waitMs);
    }
  }

  request(method, body, isRaters, patienceMs) {
    const headers = isRaters ? { Authorization: `Bearer ${this.token}` } : {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const signal = AbortSignal.timeout(patienceMs);
    return { method, headers, signal, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body) };
  }
}

async function refusal(answer) {
  const said = await answer.json().catch(() => ({}));
  return new Refused(answer.status, said);
}

/** What a campaign keeps about the browser: nothing that names a person. */
export function device() {
  return {
    agent: navigator.userAgent.slice(0, 300),
    screen: `${screen.width}x${screen.height}`,
    window: `${innerWidth}x${innerHeight}`,
    language: navigator.language,
    touch: navigator.maxTouchPoints > 0,
  };
}

/** Wait; shorter when the network comes back. */
function pause(ms) {
  return new Promise((done) => {
    const go = () => {
      clearTimeout(timer);
      removeEventListener("online", go);
      done();
    };
    const timer = setTimeout(go, ms);
    addEventListener("online", go);
  });
}
