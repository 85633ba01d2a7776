// The rater's page: asks /mos what to show, draws it, and sends what was answered until it is acknowledged.

import { Calls, device, Refused } from "./calls.js";
import { Deck } from "./deck.js";
import { ask, button, h } from "./dom.js";
import { Kept } from "./kept.js";
import { LiveLine, LiveTrial } from "./live.js";
import { card, codeRow, revealed, STAGES, welcome } from "./stages.js";
import { StepTrial } from "./steps.js";
import { isPage, Trial } from "./trial.js";
import { Words } from "./words.js";

const PANEL = ["PROLIFIC_PID", "STUDY_ID", "SESSION_ID"];
const ENDS = ["done", "refused", "screened_out", "withdrawn", "full", "closed", "bad_link"];
const SPOKEN = ["live", "arena"]; // kinds whose sounds are made while somebody types
const AWAY = ["loading", "welcome", "consent", ...ENDS]; // where there is nothing yet, or nothing more, to leave

class Rater {
  constructor(root, base, server) {
    const params = new URLSearchParams(location.search);
    Object.assign(this, { root, base, campaign: params.get("test") ?? params.get("campaign") ?? "", key: params.get("key") ?? "" });
    this.panel = Object.fromEntries(PANEL.filter((name) => params.get(name)).map((name) => [name, params.get(name)]));
    this.kept = new Kept([this.campaign, this.key, ...Object.values(this.panel)].join("|"));
    this.calls = new Calls(server, { waiting: (isWaiting) => this.waiting(isWaiting), stranger: () => this.join() });
    this.context = new AudioContext({ latencyHint: "interactive" }); // it stays still until a sound is asked for
    this.running = null; // what has to be closed when the screen changes
    this.isBusy = false;
    addEventListener("pagehide", () => this.running?.keep?.());
    addEventListener("pageshow", (e) => e.persisted && location.reload());
  }

  part(name) {
    return this.root.querySelector(name);
  }

  // --- coming in --------------------------------------------------------------------------------

  async begin() {
    this.words = new Words(await this.calls.json("GET", `${this.base}/rate/words.json`));
    this.speak(navigator.language); // until the campaign says its own
    const greeting = await this.calls.greet(this.campaign, this.key);
    this.isPreview = greeting.preview;
    this.isOpen = greeting.open;
    this.speak(greeting.language);
    this.title(greeting.title);
    if (this.isPreview) Object.assign(this.part(".preview"), { hidden: false, textContent: this.words.say("preview") });
    const isKnown = this.panel.PROLIFIC_PID || this.kept.get("code");
    if (isKnown) return this.enter();
    if (!this.isOpen) return this.show({ stage: "closed" });
    return this.draw("welcome", welcome(this));
  }

  /** Join, send what was not acknowledged before a reload, and go on where the server says. */
  async enter(code = null) {
    const joined = await this.join(code);
    const pending = this.kept.get("pending");
    const taken = pending && (await this.deliver(pending));
    return this.after(pending, taken, joined.shown);
  }

  async join(code = null) {
    const { campaign, key, panel } = this;
    const mine = code ?? this.kept.get("code");
    const got = await this.calls.join({ campaign, key, panel, device: device(), ...(mine ? { code: mine } : {}) });
    this.calls.token = got.token;
    if (got.code) this.kept.set("code", got.code);
    return got;
  }

  /** Shown once: with the code a rater goes on elsewhere. */
  showCode() {
    const code = this.kept.get("code");
    if (!code) return;
    const { words } = this;
    const box = this.part(".code-card");
    const hide = button(words.say("code_noted"), () => (box.hidden = true), { class: "quiet" });
    box.replaceChildren(codeRow(this, words.say("code_title"), code), h("p", { class: "hint", text: words.say("code_text") }), hide);
    box.hidden = false;
  }

  // --- what is shown ----------------------------------------------------------------------------

  async show(shown) {
    if (shown.language) this.speak(shown.language);
    if (shown.title) this.title(shown.title);
    Object.assign(this.part(".rate-part"), { hidden: !shown.part, textContent: shown.part ? this.words.say("part_of", shown.part) : "" });
    if (shown.stage !== "trials") return this.draw(shown.stage, STAGES[shown.stage](this, shown));
    return this.showTrial(shown);
  }

  /** Put a screen in the place of the last one. What it runs was closed when the last one was left. */
  draw(stage, element) {
    const { root } = this;
    root.dataset.stage = stage;
    this.part(".rate-stage").replaceChildren(element);
    this.part(".rate-stage").setAttribute("aria-busy", "false");
    this.part(".leave").hidden = AWAY.includes(stage);
    if (stage !== "trials") {
      this.part(".rate-progress").hidden = true;
      delete root.dataset.trial;
    }
    if (stage === "trials" || ENDS.includes(stage)) this.part(".code-card").hidden = true;
    scrollTo(0, 0);
    element.querySelector("[tabindex='-1']")?.focus({ preventScroll: true });
  }

  async showTrial(shown) {
    const { trial } = shown;
    const draft = this.kept.get("draft");
    const mine = draft?.trial === trial.trial ? draft : null;
    this.progress(trial);
    this.loading();
    const buffers = SPOKEN.includes(shown.screen.kind) ? null : await this.sounds(trial.slots);
    const open = () => this.openTrial(shown, buffers, mine);
    if (!trial.break_before || mine) return open();
    return this.draw("break", this.pauseCard(trial, open));
  }

  openTrial(shown, buffers, draft) {
    const { trial } = shown;
    const view = (this.running = buffers ? this.deckTrial(shown, buffers, draft) : this.liveTrial(shown, draft));
    this.draw("trials", view.element);
    this.root.dataset.trial = trial.trial;
    view.keep(); // a reload comes back to this screen, not to the break before it
    view.focus();
    const place = this.words.place(trial);
    this.say(trial.practice ? `${place}. ${this.words.say("practice")}` : place);
  }

  deckTrial(shown, buffers, draft) {
    const deck = new Deck(this.context, buffers, {
      together: isPage(shown.screen),
      kept: draft?.sounds,
      on: { may: (slot) => view.may(slot), changed: () => view.heard(), silent: () => this.notify("warn", this.words.say("silent")) },
    });
    const view = new (shown.trial.asked.length ? StepTrial : Trial)(shown, deck, draft, this.words, this.told);
    return view;
  }

  liveTrial(shown, draft) {
    this.line ??= new LiveLine(this.base, this.calls.server, this.calls.token);
    return new LiveTrial(shown, this.line, draft, this.words, this.told);
  }

  /** What a screen tells. */
  get told() {
    return {
      keep: (marks) => this.kept.set("draft", marks),
      send: (answer) => this.attempt(() => this.send(answer)),
      say: (text) => this.say(text),
    };
  }

  pauseCard({ position, of }, open) {
    const { words } = this;
    const go = button(words.say("go_on"), open, { class: "primary" });
    return card(words.say("break_title"), h("p", { class: "body-text", text: words.say("break_text", { n: position, of }) }), h("div", { class: "actions" }, go));
  }

  loading() {
    this.root.dataset.stage = "loading";
    delete this.root.dataset.trial;
    this.part(".rate-stage").setAttribute("aria-busy", "true");
    this.part(".rate-stage").replaceChildren(h("p", { class: "spin", text: this.words.say("loading_sounds") }));
  }

  sounds(slots) {
    return Promise.all(slots.map(async ({ url }) => this.context.decodeAudioData(await this.calls.sound(url))));
  }

  progress({ position, of }) {
    const bar = this.part(".rate-progress");
    bar.hidden = !of; // an arena has no end to come nearer to
    bar.setAttribute("aria-valuemax", of);
    bar.setAttribute("aria-valuenow", position);
    bar.setAttribute("aria-label", this.words.say("progress"));
    bar.firstElementChild.style.inlineSize = `${(100 * position) / of}%`;
  }

  // --- what is sent -----------------------------------------------------------------------------

  /** Do something that may fail, one at a time, and say so when it does. */
  async attempt(work) {
    if (this.isBusy) return;
    this.isBusy = true;
    this.root.classList.add("busy");
    try {
      await work();
    } catch (error) {
      this.failed(error);
    } finally {
      this.isBusy = false;
      this.root.classList.remove("busy");
    }
  }

  /** A stage has been done. */
  pass(stage, data) {
    return this.attempt(async () => {
      this.notify();
      this.shut();
      await this.show(await this.passed(stage, data));
    });
  }

  async passed(stage, data) {
    try {
      const shown = this.known(await this.calls.stage(stage, data));
      if (shown.token && stage === "consent") this.showCode(); // only now is anything kept, and the code good for something
      return shown;
    } catch (error) {
      if (error.status !== 409) throw error;
      return this.next(); // done already: in another tab, or by a call whose answer was lost
    }
  }

  /** What comes next. */
  async next() {
    return this.known(await this.calls.next());
  }

  /** Who agrees, and who goes on with another part of a sitting, is known by a new token from then on. */
  known(shown) {
    if (!shown.token) return shown;
    this.calls.token = shown.token;
    this.line?.close();
    this.line = null;
    return shown;
  }

  /** An answer stays in this browser until the server has it; only then comes the next screen. */
  async send(answer) {
    this.notify();
    this.kept.set("pending", answer);
    const taken = await this.deliver(answer);
    this.shut();
    return this.after(answer, taken);
  }

  /** What comes after an answer: who it was, where the server tells it; else what is next. */
  async after(answer, taken, next = null) {
    if (taken?.voices) return this.draw("revealed", revealed(this, taken, answer.choices[0].outcome));
    return this.show(next ?? (await this.next()));
  }

  /** What the server said of it; nothing where it was answered before. */
  async deliver(answer) {
    this.isSaving = true;
    let taken = null;
    try {
      taken = await this.calls.answer(answer);
      this.say(this.words.say("saved"));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.kept.drop("pending");
      if (error.status !== 409 && this.running) throw error;
      if (error.status !== 409) return null; // the screen comes back with its marks
      this.notify("warn", this.words.say("answered_elsewhere"));
    } finally {
      this.isSaving = false;
    }
    this.kept.drop("pending");
    this.kept.drop("draft");
    return taken;
  }

  /** Go on from a card that was only there to be read. */
  goOn() {
    return this.attempt(async () => this.show(await this.next()));
  }

  async leave() {
    if (!(await this.ask("leave_ask", "leave_text", "leave_yes"))) return;
    await this.attempt(async () => {
      await this.calls.withdraw();
      this.kept.drop("pending");
      this.kept.drop("draft");
      this.shut();
      await this.show(await this.next());
    });
  }

  shut() {
    this.running?.close();
    this.running = null;
  }

  // --- what is said -----------------------------------------------------------------------------

  failed(error) {
    const { words } = this;
    const isRefused = error instanceof Refused;
    if (isRefused && this.running?.lock && this.root.dataset.stage === "trials") {
      this.running.lock(false);
      return this.notify("error", words.say("not_taken", { message: error.message }));
    }
    this.shut();
    if (isRefused && error.code === "not_open") return this.show({ stage: "closed" });
    if (isRefused && !this.calls.token) return this.show({ stage: "bad_link" });
    const again = button(words.say("try_again"), () => location.reload(), { class: "primary" });
    return this.draw("failed", card(words.say("failed_title"), h("p", { class: "body-text", text: words.say("failed_text", { message: error.message }) }), h("div", { class: "actions" }, again)));
  }

  /** While a call is tried again; what was answered is safe meanwhile. */
  waiting(isWaiting) {
    const banner = this.part(".banner");
    if (isWaiting && this.words) this.notify("warn", this.words.say(this.isSaving ? "saving" : "no_connection"), "network");
    else if (banner.dataset.about === "network") this.notify();
  }

  notify(level = "", text = "", about = "") {
    const banner = this.part(".banner");
    Object.assign(banner.dataset, { level, about });
    if (banner.textContent !== text) banner.textContent = text;
  }

  /** For those who do not see the page. */
  say(text) {
    this.part(".said").textContent = text;
  }

  /** A question with two answers; whether it was answered with yes. */
  ask(question, text, yes) {
    const { words } = this;
    return ask(this.part(".rate-ask"), words.say(question), words.say(text), words.say("leave_no"), words.say(yes));
  }

  speak(tag) {
    this.words.speak(tag);
    this.root.lang = document.documentElement.lang = this.words.language;
    this.part(".leave").textContent = this.words.say("leave");
  }

  title(text) {
    this.part(".rate-title").textContent = document.title = text;
  }
}

/** Called by Gradio when the component is in the page. */
export function start(element, base, server) {
  const root = element.querySelector(".rate");
  if (root.isStarted) return;
  root.isStarted = true;
  const rater = new Rater(root, base, server);
  root.querySelector(".leave").addEventListener("click", () => rater.leave());
  rater.attempt(() => rater.begin());
}
