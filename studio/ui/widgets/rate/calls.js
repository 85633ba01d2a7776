// HTTP client of the /mos routes. Network errors, 429 and 5xx are retried until they succeed.

const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 15000;
const TIMEOUT_MS = 20000;
const SOUND_TIMEOUT_MS = 90000;

/** A 4xx response other than 429. */
export class Refused extends Error {
  constructor(status, body) {
    super(body.message ?? `status ${status}`);
    this.status = status;
    this.code = body.code ?? "";
  }
}

export class Calls {
  /** `on` has `waiting(isWaiting)`, called before a retry and after a success, and `unauthorized()`, which renews the token. */
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
    return this.call(method, path, body, TIMEOUT_MS, (answer) => answer.json());
  }

  /** The bytes of a sound. */
  sound(path) {
    return this.call("GET", path, undefined, SOUND_TIMEOUT_MS, (answer) => answer.arrayBuffer());
  }

  async call(method, path, body, timeoutMs, read) {
    const needsToken = this.token !== null && !/^(greet|join)/.test(path);
    let mayRenew = needsToken;
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(MAX_WAIT_MS, 2 * waitMs)) {
      let answer = null;
      try {
        answer = await fetch(new URL(path, this.server), this.request(method, body, needsToken, timeoutMs));
        if (answer.ok) {
          const result = await read(answer);
          this.on.waiting(false);
          return result;
        }
      } catch (error) {
        if (error instanceof SyntaxError) throw error; // invalid JSON: a retry would not help
        answer = null; // network error or timeout
      }
      if (answer && answer.status !== 429 && answer.status < 500) {
        if (!mayRenew || ![401, 403].includes(answer.status)) throw await refusal(answer);
        mayRenew = false;
        await this.on.unauthorized();
        continue;
      }
      this.on.waiting(true);
      const retryAfterS = Number(answer?.headers.get("Retry-After"));
      await pause(retryAfterS > 0 ? Math.min(MAX_WAIT_MS, 1000 * retryAfterS) : waitMs);
    }
  }

  /** @returns {RequestInit} */
  request(method, body, needsToken, timeoutMs) {
    const headers = needsToken ? { Authorization: `Bearer ${this.token}` } : {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const signal = AbortSignal.timeout(timeoutMs);
    return { method, headers, signal, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body) };
  }
}

async function refusal(answer) {
  return new Refused(answer.status, await answer.json().catch(() => ({})));
}

/** What a campaign stores about the browser; nothing that identifies a person. */
export function device() {
  return {
    agent: navigator.userAgent.slice(0, 300),
    screen: `${screen.width}x${screen.height}`,
    window: `${innerWidth}x${innerHeight}`,
    language: navigator.language,
    touch: navigator.maxTouchPoints > 0,
  };
}

/** Wait for `ms`, or until the browser is online again. @returns {Promise<void>} */
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
