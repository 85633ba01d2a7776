// The Compare page: shows the utterances named in its URL side by side; more can be synthesized or added.

import { Terms } from "../glossary/tips.js";
import { isOwner } from "../owner/calls.js";
import { h } from "../rate/dom.js";
import { parse } from "../timeline/bundle.js";
import { MAX_UTTERANCES, SynthesisForm } from "./synthesis_form.js";
import { Viewer } from "./viewer.js";

const TO_LIBRARY =
  "One of these utterances is in the library, which only the owner can open: sign in on the Library page.";
const BUSY = 503;
const AGAIN_MS = 700;
const TRIES = 8; // while the server is busy
const TOKEN = /(?:trace=|traces\/)?([A-Za-z0-9_-]{22})(?:\.trace)?(?:&|$)/;
const NAME = /(?:kept=)?([0-9a-f]{12,64})(?:&|$)/;

class Compare {
  constructor(element, server, props) {
    this.page = element.querySelector(".compare");
    this.server = server;
    this.viewer = null;
    this.latest = 0; // number of the newest request; older answers are dropped
    const address = new URLSearchParams(location.search);
    this.named = [...address].filter(([kind]) => kind === "trace" || kind === "kept");
    this.synthesisForm = new SynthesisForm(this.page, server, address, new Terms(props.terms), {
      status: (text, level) => this.showMessage(text, level),
      room: () => MAX_UTTERANCES - this.named.length,
      added: (tokens, text, level) => this.addSpoken(tokens, text, level),
    });
    this.page.querySelector(".adding").addEventListener("submit", (e) => this.add(e));
    this.open();
    this.page.dataset.ready = "";
  }

  showMessage(text = "", level = "") {
    const status = this.page.querySelector(".status");
    status.textContent = text;
    status.dataset.level = level;
  }

  /** The utterances as URL parameters. */
  get query() {
    return new URLSearchParams(this.named).toString();
  }

  async fetched(part, more = {}) {
    const usesLibrary = this.named.some(([kind]) => kind === "kept");
    if (usesLibrary && !isOwner()) throw new Error(TO_LIBRARY);
    const query = new URLSearchParams([...this.named, ...Object.entries(more)]);
    for (let tries = 1; ; tries++) {
      const answer = await fetch(`${this.server}compare/${part}?${query}`);
      if (answer.ok) return parse(await answer.arrayBuffer());
      if (answer.status === 403) throw new Error(TO_LIBRARY);
      if (answer.status !== BUSY || tries === TRIES) throw new Error(await why(answer));
      await new Promise((go) => setTimeout(go, AGAIN_MS * tries));
    }
  }

  async open() {
    const mine = ++this.latest;
    const isNow = () => mine === this.latest;
    this.list();
    if (!this.named.length) return this.clear();
    this.showMessage(this.named.length > 1 ? `Opening ${this.named.length} utterances …` : "Opening the utterance …");
    try {
      const parts = await this.fetched("view");
      if (!isNow()) return;
      this.viewer?.close();
      /** @type {Promise<any>} */
      let last = Promise.resolve();
      const difference = (one, other, stretch) => {
        // one request at a time: each loads every utterance
        last = last
          .then(() => (isNow() ? this.fetched("difference", { one, other, stretch }) : null))
          .catch((error) => (isNow() ? this.showMessage(error.message, "error") : null));
        return last;
      };
      this.viewer = new Viewer(this.page, parts, difference);
      delete document.body.dataset.opening;
      this.list(parts.view.takes);
      this.synthesisForm.suggest(parts.view.takes[parts.view.reference]);
      this.showMessage(
        this.named.length > 1 ? "" : "Only one utterance: synthesize the same text in other ways, or add another one.",
      );
      await last;
      const measured = await this.fetched("words");
      if (isNow()) this.viewer.take(measured);
    } catch (error) {
      delete document.body.dataset.opening;
      if (isNow())
        this.showMessage(error instanceof TypeError ? "The server cannot be reached." : error.message, "error");
    }
  }

  clear() {
    this.viewer?.close();
    this.viewer = null;
    this.page.querySelector(".view").hidden = true;
    this.page.dataset.state = "empty";
    this.showMessage();
  }

  /** List the compared utterances with links to Inspect and remove buttons. */
  list(takes = []) {
    const list = this.page.querySelector(".open-list");
    list.hidden = !this.named.length;
    const item = ([kind, name], k) => {
      const title = `${k + 1} ${takes[k]?.name ?? name.slice(0, 8)}`;
      const look = h("a", {
        href: `./inspect?${kind}=${encodeURIComponent(name)}`,
        text: "Inspect",
        "aria-label": `Inspect ${title}`,
      });
      const away = h("button", {
        type: "button",
        text: "×",
        "aria-label": `Remove ${title}`,
        on: { click: () => this.change(this.named.filter((_, index) => index !== k)) },
      });
      return h("li", {}, h("span", { text: title }), look, away);
    };
    list.replaceChildren(...this.named.map(item));
  }

  /** Compare other utterances, and update the page's URL. */
  change(named) {
    this.named = named;
    history.replaceState(history.state, "", location.pathname + (named.length ? `?${this.query}` : ""));
    return this.open();
  }

  async addSpoken(tokens, text, level) {
    if (tokens.length) await this.change([...this.named, ...tokens.map((name) => ["trace", name])]);
    if (text) this.showMessage(text, level);
  }

  add(event) {
    event.preventDefault();
    const field = this.page.querySelector(".link");
    const link = field.value.trim();
    const entry = /kept=/.test(link) || /^[0-9a-f]{12}$/.test(link) ? NAME.exec(link)?.[1] : null;
    const trace = entry ? null : TOKEN.exec(link)?.[1];
    if (!entry && !trace)
      return this.showMessage("This names no utterance: enter a link of the Inspect page.", "error");
    if (this.named.length >= MAX_UTTERANCES)
      return this.showMessage(`At most ${MAX_UTTERANCES} utterances can be compared: remove one first.`, "error");
    field.value = "";
    return this.change([...this.named, entry ? ["kept", entry] : ["trace", trace]]);
  }
}

async function why(answer) {
  try {
    return (await answer.json()).message;
  } catch {
    return `The server answered ${answer.status}.`;
  }
}

/** Start the page; `server` is the server's URL with a trailing slash. */
export function start(element, { props, server }) {
  const page = element.querySelector(".compare");
  page.comparison ??= new Compare(element, server, props);
}
