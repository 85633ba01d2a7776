// The Compare page: utterances named in its address are fetched and laid beside each other; others are made or added.

import { token } from "../owner/calls.js";
import { h } from "../rate/dom.js";
import { parse } from "../timeline/bundle.js";
import { Making, MOST } from "./making.js";
import { Viewer } from "./viewer.js";

const TO_LIBRARY = "One of these is in the library, which wants the owner's token: open them from the Library page.";
const BUSY = 503;
const AGAIN_MS = 700;
const TRIES = 8; // while others open theirs
const TOKEN = /(?:trace=|traces\/)?([A-Za-z0-9_-]{22})(?:\.trace)?(?:&|$)/;
const NAME = /(?:kept=)?([0-9a-f]{12,64})(?:&|$)/;

class Compare {
  constructor(element, server) {
    this.page = element.querySelector(".compare");
    this.server = server;
    this.viewer = null;
    this.asked = 0; // only the answer to the last question is shown
    const address = new URLSearchParams(location.search);
    this.named = [...address].filter(([kind]) => kind === "trace" || kind === "kept");
    this.making = new Making(this.page, server, address, {
      told: (text, level) => this.tell(text, level),
      room: () => MOST - this.named.length,
      made: (tokens, text, level) => this.made(tokens, text, level),
    });
    this.page.querySelector(".adding").addEventListener("submit", (e) => this.add(e));
    this.open();
    this.page.dataset.ready = "";
  }

  tell(text = "", level = "") {
    const status = this.page.querySelector(".status");
    status.textContent = text;
    status.dataset.level = level;
  }

  /** The names as the server takes them. */
  get query() {
    return new URLSearchParams(this.named).toString();
  }

  async fetched(part, more = {}) {
    const isKept = this.named.some(([kind]) => kind === "kept");
    if (isKept && !token()) throw new Error(TO_LIBRARY);
    const headers = isKept ? { Authorization: `Bearer ${token()}` } : {};
    const query = new URLSearchParams([...this.named, ...Object.entries(more)]);
    for (let tries = 1; ; tries++) {
      const answer = await fetch(`${this.server}compare/${part}?${query}`, { headers });
      if (answer.ok) return parse(await answer.arrayBuffer());
      if (answer.status === 403) throw new Error(TO_LIBRARY);
      if (answer.status !== BUSY || tries === TRIES) throw new Error(await why(answer));
      await new Promise((go) => setTimeout(go, AGAIN_MS * tries));
    }
  }

  async open() {
    const mine = ++this.asked;
    const isNow = () => mine === this.asked;
    this.list();
    if (!this.named.length) return this.shut();
    this.tell(this.named.length > 1 ? `Opening ${this.named.length} utterances …` : "Opening the utterance …");
    try {
      const parts = await this.fetched("view");
      if (!isNow()) return;
      this.viewer?.close();
      let last = Promise.resolve();
      const difference = (one, other, stretch) => {
        // one request at a time: each opens every utterance anew
        last = last.then(() => (isNow() ? this.fetched("difference", { one, other, stretch }) : null)).catch((error) => (isNow() ? this.tell(error.message, "error") : null));
        return last;
      };
      this.viewer = new Viewer(this.page, parts, difference);
      this.list(parts.view.takes);
      this.making.suggest(parts.view.takes[parts.view.reference]);
      this.tell(this.named.length > 1 ? "" : "One alone: speak the same text in other ways, or add another one.");
      await last;
      const measured = await this.fetched("words");
      if (isNow()) this.viewer.take(measured);
    } catch (error) {
      if (isNow()) this.tell(error instanceof TypeError ? "The server cannot be reached." : error.message, "error");
    }
  }

  shut() {
    this.viewer?.close();
    this.viewer = null;
    this.page.querySelector(".view").hidden = true;
    this.page.dataset.state = "empty";
    this.tell();
  }

  /** What is compared, each with a way to look into it and to take it away. */
  list(takes = []) {
    const list = this.page.querySelector(".open-list");
    list.hidden = !this.named.length;
    const item = ([kind, name], k) => {
      const called = `${k + 1} ${takes[k]?.name ?? name.slice(0, 8)}`;
      const look = h("a", { href: `./inspect?${kind}=${encodeURIComponent(name)}`, text: "Inspect", "aria-label": `Inspect ${called}` });
      const away = h("button", { type: "button", text: "×", "aria-label": `Take ${called} away`, on: { click: () => this.change(this.named.filter((_, place) => place !== k)) } });
      return h("li", {}, h("span", { text: called }), look, away);
    };
    list.replaceChildren(...this.named.map(item));
  }

  /** Others are compared now: the address says which, so that it can be sent. */
  change(named) {
    this.named = named;
    history.replaceState(history.state, "", location.pathname + (named.length ? `?${this.query}` : ""));
    return this.open();
  }

  async made(tokens, text, level) {
    if (tokens.length) await this.change([...this.named, ...tokens.map((name) => ["trace", name])]);
    if (text) this.tell(text, level);
  }

  add(event) {
    event.preventDefault();
    const field = this.page.querySelector(".link");
    const given = field.value.trim();
    const kept = /kept=/.test(given) || /^[0-9a-f]{12}$/.test(given) ? NAME.exec(given)?.[1] : null;
    const trace = kept ? null : TOKEN.exec(given)?.[1];
    if (!kept && !trace) return this.tell("This names no utterance: give the link of one on the Inspect page.", "error");
    if (this.named.length >= MOST) return this.tell(`${MOST} are compared already: take one away first.`, "error");
    field.value = "";
    return this.change([...this.named, kept ? ["kept", kept] : ["trace", trace]]);
  }
}

async function why(answer) {
  try {
    return (await answer.json()).message;
  } catch {
    return `The server answered ${answer.status}.`;
  }
}

/** Start the page; `server` is its address with a slash at its end. */
export function start(element, server) {
  const page = element.querySelector(".compare");
  page.comparison ??= new Compare(element, server);
}
