// The rater's page: fetches the current stage from /mos, draws it, and resends each answer until it is acknowledged.

import { Calls, device, Refused } from "./calls.js";
import { Deck } from "./deck.js";
import { ask, button, h } from "./dom.js";
import { LiveConnection, LiveTrial } from "./live.js";
import { card, codeRow, revealed, STAGES, welcome } from "./stages.js";
import { StepTrial } from "./steps.js";
import { RaterStorage } from "./storage.js";
import { isPage, Trial } from "./trial.js";
import { Words } from "./words.js";

const PANEL = ["PROLIFIC_PID", "STUDY_ID", "SESSION_ID"];
const ENDS = ["done", "refused", "screened_out", "withdrawn", "full", "closed", "bad_link"];
const LIVE_KINDS = ["live", "arena"]; // speech is synthesized while the rater types
const WITHOUT_LEAVE = ["loading", "welcome", "consent", ...ENDS]; // stages without a leave button

class Rater {
  constructor(root, base, server) {
    const params = new URLSearchParams(location.search);
    this.root = root;
    this.base = base;
    this.campaign = params.get("test") ?? params.get("campaign") ?? "";
    this.key = params.get("key") ?? "";
    this.panel = Object.fromEntries(PANEL.filter((name) => params.get(name)).map((name) => [name, params.get(name)]));
    this.storage = new RaterStorage([this.campaign, this.key, ...Object.values(this.panel)].join("|"));
    this.calls = new Calls(server, {
      waiting: (isWaiting) => this.waiting(isWaiting),
      unauthorized: () => this.join(),
    });
    this.context = new AudioContext({ latencyHint: "interactive" }); // suspended until the first playback
    this.running = null; // the current screen; closed when the stage changes
    this.isBusy = false;
    addEventListener("pagehide", () => this.running?.saveDraft?.());
    addEventListener("pageshow", (e) => e.persisted && location.reload());
  }

  part(name) {
    return this.root.querySelector(name);
  }

  // --- joining ----------------------------------------------------------------------------------

  async begin() {
    this.words = new Words(await this.calls.json("GET", `${this.base}/rate/words.json`));
    this.speak(navigator.language); // until the campaign sets its language
    const greeting = await this.calls.greet(this.campaign, this.key);
    this.isPreview = greeting.preview;
    this.isOpen = greeting.open;
    this.speak(greeting.language);
    this.title(greeting.title);
    if (this.isPreview)
      Object.assign(this.part(".preview"), { hidden: false, textContent: this.words.text("preview") });
    const isKnown = this.panel.PROLIFIC_PID || this.storage.get("code");
    if (isKnown) return this.enter();
    if (!this.isOpen) return this.show({ stage: "closed" });
    return this.draw("welcome", welcome(this));
  }

  /** Join, resend an unacknowledged answer from before a reload, and show the current stage. */
  async enter(code = null) {
    const joined = await this.join(code);
    const pending = this.storage.get("pending");
    const receipt = pending && (await this.deliver(pending));
    return this.after(pending, receipt, joined.shown);
  }

  async join(code = null) {
    const { campaign, key, panel } = this;
    const raterCode = code ?? this.storage.get("code");
    const joined = await this.calls.join({
      campaign,
      key,
      panel,
      device: device(),
      ...(raterCode ? { code: raterCode } : {}),
    });
    this.calls.token = joined.token;
    if (joined.code) this.storage.set("code", joined.code);
    return joined;
  }

  /** Show the code for resuming in another browser; once per rater. */
  showCode() {
    const code = this.storage.get("code");
    if (!code) return;
    const { words } = this;
    const box = this.part(".code-card");
    const hide = button(words.text("code_noted"), () => (box.hidden = true), { class: "quiet" });
    box.replaceChildren(
      codeRow(this, words.text("code_title"), code),
      h("p", { class: "hint", text: words.text("code_text") }),
      hide,
    );
    box.hidden = false;
  }

  // --- drawing ----------------------------------------------------------------------------------

  async show(state) {
    if (state.language) this.speak(state.language);
    if (state.title) this.title(state.title);
    Object.assign(this.part(".rate-part"), {
      hidden: !state.part,
      textContent: state.part ? this.words.text("part_of", state.part) : "",
    });
    if (state.stage !== "trials") return this.draw(state.stage, STAGES[state.stage](this, state));
    return this.showTrial(state);
  }

  /** Replace the current screen; the caller has closed `running`. */
  draw(stage, element) {
    const { root } = this;
    root.dataset.stage = stage;
    this.part(".rate-stage").replaceChildren(element);
    this.part(".rate-stage").setAttribute("aria-busy", "false");
    this.part(".leave").hidden = WITHOUT_LEAVE.includes(stage);
    if (stage !== "trials") {
      this.part(".rate-progress").hidden = true;
      delete root.dataset.trial;
    }
    if (stage === "trials" || ENDS.includes(stage)) this.part(".code-card").hidden = true;
    scrollTo(0, 0);
    element.querySelector("[tabindex='-1']")?.focus({ preventScroll: true });
  }

  async showTrial(state) {
    const { trial } = state;
    const draft = this.storage.get("draft");
    const current = draft?.trial === trial.trial ? draft : null;
    this.progress(trial);
    this.loading();
    const buffers = LIVE_KINDS.includes(state.screen.kind) ? null : await this.sounds(trial.slots);
    const open = () => this.openTrial(state, buffers, current);
    if (!trial.break_before || current) return open();
    return this.draw("break", this.pauseCard(trial, open));
  }

  openTrial(state, buffers, draft) {
    const { trial } = state;
    const view = buffers ? this.deckTrial(state, buffers, draft) : this.liveTrial(state, draft);
    this.running = view;
    this.draw("trials", view.element);
    this.root.dataset.trial = trial.trial;
    view.saveDraft(); // a reload returns to this screen, not to the break before it
    view.focus();
    const place = this.words.place(trial);
    this.announce(trial.practice ? `${place}. ${this.words.text("practice")}` : place);
  }

  deckTrial(state, buffers, draft) {
    const deck = new Deck(this.context, buffers, {
      together: isPage(state.screen),
      playback: draft?.sounds,
      on: {
        mayPlay: (slot) => view.mayPlay(slot),
        changed: () => view.playbackChanged(),
        silent: () => this.notify("warn", this.words.text("silent")),
      },
    });
    const view = new (state.trial.asked.length ? StepTrial : Trial)(state, deck, draft, this.words, this.callbacks);
    return view;
  }

  liveTrial(state, draft) {
    this.connection ??= new LiveConnection(this.base, this.calls.server, this.calls.token);
    return new LiveTrial(state, this.connection, draft, this.words, this.callbacks);
  }

  get callbacks() {
    return {
      saveDraft: (marks) => this.storage.set("draft", marks),
      send: (answer) => this.attempt(() => this.send(answer)),
      announce: (text) => this.announce(text),
    };
  }

  pauseCard({ position, of }, open) {
    const { words } = this;
    const go = button(words.text("go_on"), open, { class: "primary" });
    return card(
      words.text("break_title"),
      h("p", { class: "body-text", text: words.text("break_text", { n: position, of }) }),
      h("div", { class: "actions" }, go),
    );
  }

  loading() {
    this.root.dataset.stage = "loading";
    delete this.root.dataset.trial;
    this.part(".rate-stage").setAttribute("aria-busy", "true");
    this.part(".rate-stage").replaceChildren(h("p", { class: "spin", text: this.words.text("loading_sounds") }));
  }

  sounds(slots) {
    return Promise.all(slots.map(async ({ url }) => this.context.decodeAudioData(await this.calls.sound(url))));
  }

  progress({ position, of }) {
    const bar = this.part(".rate-progress");
    bar.hidden = !of; // an arena has no last trial
    bar.setAttribute("aria-valuemax", of);
    bar.setAttribute("aria-valuenow", position);
    bar.setAttribute("aria-label", this.words.text("progress"));
    bar.firstElementChild.style.inlineSize = `${(100 * position) / of}%`;
  }

  // --- sending ----------------------------------------------------------------------------------

  /** Run one action at a time and show its error. */
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

  /** Submit a finished stage and show the next one. */
  pass(stage, data) {
    return this.attempt(async () => {
      this.notify();
      this.closeScreen();
      await this.show(await this.submit(stage, data));
    });
  }

  async submit(stage, data) {
    try {
      const state = this.adoptToken(await this.calls.stage(stage, data));
      if (state.token && stage === "consent") this.showCode(); // the rater is stored from here on, so the code is valid
      return state;
    } catch (error) {
      if (error.status !== 409) throw error;
      return this.next(); // already done in another tab, or the response was lost
    }
  }

  async next() {
    return this.adoptToken(await this.calls.next());
  }

  /** Use the new token that consent and each further part of a rater session bring. */
  adoptToken(state) {
    if (!state.token) return state;
    this.calls.token = state.token;
    this.connection?.close();
    this.connection = null;
    return state;
  }

  /** Store an answer until the server acknowledges it, then show the next screen. */
  async send(answer) {
    this.notify();
    this.storage.set("pending", answer);
    const receipt = await this.deliver(answer);
    this.closeScreen();
    return this.after(answer, receipt);
  }

  /** Show the two voices of an arena vote, else the next stage. */
  async after(answer, receipt, next = null) {
    if (receipt?.voices) return this.draw("revealed", revealed(this, receipt, answer.choices[0].outcome));
    return this.show(next ?? (await this.next()));
  }

  /** The server's receipt; null if the trial was already answered. */
  async deliver(answer) {
    this.isSaving = true;
    let receipt = null;
    try {
      receipt = await this.calls.answer(answer);
      this.announce(this.words.text("saved"));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.storage.drop("pending");
      if (error.status !== 409 && this.running) throw error;
      if (error.status !== 409) return null; // the screen is shown again with its marks
      this.notify("warn", this.words.text("answered_elsewhere"));
    } finally {
      this.isSaving = false;
    }
    this.storage.drop("pending");
    this.storage.drop("draft");
    return receipt;
  }

  /** Continue from a card without input. */
  proceed() {
    return this.attempt(async () => this.show(await this.next()));
  }

  async leave() {
    if (!(await this.ask("leave_ask", "leave_text", "leave_yes"))) return;
    await this.attempt(async () => {
      await this.calls.withdraw();
      this.storage.drop("pending");
      this.storage.drop("draft");
      this.closeScreen();
      await this.show(await this.next());
    });
  }

  closeScreen() {
    this.running?.close();
    this.running = null;
  }

  // --- messages ---------------------------------------------------------------------------------

  failed(error) {
    const { words } = this;
    const isRefused = error instanceof Refused;
    if (isRefused && this.running?.lock && this.root.dataset.stage === "trials") {
      this.running.lock(false);
      return this.notify("error", words.text("not_taken", { message: error.message }));
    }
    this.closeScreen();
    if (isRefused && error.code === "not_open") return this.show({ stage: "closed" });
    if (isRefused && !this.calls.token) return this.show({ stage: "bad_link" });
    const again = button(words.text("try_again"), () => location.reload(), { class: "primary" });
    return this.draw(
      "failed",
      card(
        words.text("failed_title"),
        h("p", { class: "body-text", text: words.text("failed_text", { message: error.message }) }),
        h("div", { class: "actions" }, again),
      ),
    );
  }

  /** Show that a call is retried; answers are in local storage meanwhile. */
  waiting(isWaiting) {
    const banner = this.part(".banner");
    if (isWaiting && this.words)
      this.notify("warn", this.words.text(this.isSaving ? "saving" : "no_connection"), "network");
    else if (banner.dataset.about === "network") this.notify();
  }

  notify(level = "", text = "", about = "") {
    const banner = this.part(".banner");
    Object.assign(banner.dataset, { level, about });
    if (banner.textContent !== text) banner.textContent = text;
  }

  /** Announce to screen readers. */
  announce(text) {
    this.part(".said").textContent = text;
  }

  /** Ask yes or no in a dialog. */
  ask(question, text, yes) {
    const { words } = this;
    return ask(this.part(".rate-ask"), words.text(question), words.text(text), words.text("leave_no"), words.text(yes));
  }

  speak(tag) {
    this.words.setLanguage(tag);
    this.root.lang = document.documentElement.lang = this.words.language;
    this.part(".leave").textContent = this.words.text("leave");
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
