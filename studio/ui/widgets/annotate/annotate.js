// The annotators' page: the utterances of an assignment link, one at a time.

import { Annotator } from "../inspect/annotate/annotator.js";
import { LinkCalls } from "../inspect/annotate/sources.js";
import { Viewer } from "../inspect/viewer.js";
import { counted } from "../page/plurals.js";
import { h, showStatus } from "../rate/dom.js";
import { parse } from "../timeline/bundle.js";

const NO_LINK = "This page is opened by a link. Ask the organisers of the annotation for yours.";
const MOST_TITLE = 90;

class Assigned {
  constructor(root, picture, calls) {
    this.root = root;
    this.picture = picture;
    this.calls = calls;
    this.number = -1;
    this.latest = 0;
    this.viewer = null;
    this.box = this.find(".done input");
    this.box.addEventListener("change", () => this.viewer?.annotator?.document.finish(this.box.checked));
    this.find(".next").addEventListener("click", () => this.choose(this.after()));
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  showMessage(text = "", level = "info") {
    showStatus(this.find(".status"), text, level);
  }

  async begin() {
    if (!this.calls.token) return this.showMessage(NO_LINK);
    try {
      this.assignment = await this.calls.json("assignment");
    } catch (error) {
      return this.showMessage(error.message, "error");
    }
    const { title, task, is_blind: isBlind } = this.assignment;
    this.picture.classList.toggle("is-blind", isBlind);
    document.title = title;
    this.find("h1").textContent = title;
    this.find(".task").textContent = task;
    for (const selector of ["header", ".assigned-list", ".assigned-bar"]) this.find(selector).hidden = false;
    this.list();
    this.root.dataset.stage = "open";
    return this.open(this.after());
  }

  /** Index of the next unfinished utterance, else of the next one; -1 if none is available. */
  after() {
    const { utterances } = this.assignment;
    const order = utterances.map((_, k) => (this.number + 1 + k) % utterances.length);
    return (
      order.find((k) => !utterances[k].is_done && !utterances[k].is_gone) ??
      order.find((k) => !utterances[k].is_gone) ??
      -1
    );
  }

  list() {
    const { utterances, annotator } = this.assignment;
    const done = utterances.filter((one) => one.is_done).length;
    this.find(".progress").textContent = `You annotate as ${annotator}. ${done} of ${utterances.length} done.`;
    const list = this.find(".assigned-list");
    const hadFocus = list.contains(document.activeElement);
    list.replaceChildren(
      ...utterances.map((one, k) => {
        const title = one.is_gone ? "no longer available" : one.title || one.text || "a recording without text";
        const marks = one.marks ? ` · ${counted(one.marks, "mark")}` : "";
        const about = one.is_gone
          ? ""
          : `${(one.duration_ms / 1000).toFixed(1)} s${marks}${one.is_done ? " · done" : ""}`;
        const text = title.length > MOST_TITLE ? `${title.slice(0, MOST_TITLE)}…` : title;
        const isHere = k === this.number;
        return h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              disabled: one.is_gone,
              "aria-current": isHere ? "true" : null,
              class: one.is_done ? "is-done" : "",
              on: { click: () => this.choose(k) },
            },
            h("span", { text }),
            h("small", { text: about }),
          ),
        );
      }),
    );
    if (hadFocus) list.querySelector("[aria-current]")?.focus();
    this.find(".next").disabled = utterances.length < 2;
  }

  /** Open an utterance that a button named; the picture then takes its keys, which the button would take as presses. */
  async choose(number) {
    await this.open(number);
    if (this.number === number) this.viewer?.scene.canvas.focus({ preventScroll: true });
  }

  async open(number) {
    if (number < 0)
      return this.showMessage(
        "No utterance of this assignment is available any more. Ask the organisers who gave you the link.",
        "error",
      );
    const mine = ++this.latest;
    this.showMessage("Opening …");
    try {
      const parts = parse(await (await this.calls.call(`view/${number}`)).arrayBuffer());
      if (mine !== this.latest) return undefined;
      const before = this.viewer?.annotator?.saver;
      if (before)
        before.lost = (error) =>
          this.showMessage(
            `Marks of the previous utterance are not saved yet: ${error.message} They are stored in this browser and sent when you open it again.`,
            "error",
          );
      this.viewer?.close();
      this.number = number;
      const viewer = new Viewer(this.picture, parts, this.assignment.utterances[number].title);
      this.viewer = viewer;
      const container = viewer.find(".annotation");
      container.hidden = false;
      container.replaceChildren();
      const annotator = await Annotator.open(viewer, this.calls.source(number), container);
      if (mine !== this.latest || !annotator) return undefined;
      const count = () => this.count(number, annotator.document);
      annotator.onChanged = count;
      count();
      this.showMessage();
      const measured = await this.calls.call(`prosody/${number}`).catch(() => null); // optional
      if (measured) viewer.take(parse(await measured.arrayBuffer()));
    } catch (error) {
      if (mine === this.latest) this.showMessage(error.message, "error");
    }
    return undefined;
  }

  /** Update the list entry's mark count and state. */
  count(number, { marks, isDone }) {
    Object.assign(this.assignment.utterances[number], { marks, is_done: isDone });
    this.box.checked = isDone;
    this.list();
  }
}

/** Called by Gradio when the component is mounted. */
export function start(element, { server }) {
  const root = element.querySelector(".assigned");
  if (root.isStarted) return;
  root.isStarted = true;
  const token = () => location.hash.slice(1);
  const assigned = new Assigned(root, element.querySelector(".inspect"), new LinkCalls(server, token()));
  root.assigned = assigned; // for tests
  addEventListener("hashchange", () => location.reload());
  assigned.begin();
}
