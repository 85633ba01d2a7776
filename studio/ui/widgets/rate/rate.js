// The rater's page: fetches the current stage from /mos, draws it, and resends each answer until it is acknowledged.

import { revealed } from "./arena.js";
import { Calls, device, Refused } from "./calls.js";
import { card } from "./cards.js";
import { Deck } from "./deck.js";
import { button, h } from "./dom.js";
import { LiveTrial } from "./live.js";
import { LiveConnection } from "./live_connection.js";
import { RaterPage } from "./page.js";
import { STAGES, welcome } from "./stages.js";
import { StepTrial } from "./steps.js";
import { RaterStorage } from "./storage.js";
import { isPage, Trial } from "./trial.js";
import { Words } from "./words.js";

// Parameters that recruiting panels append to the link: studio/mos/sessions/panels.py.
const PERSONS = ["PROLIFIC_PID", "workerId", "participantId", "survey_code", "participant"];
const PANEL = [
  ...PERSONS,
  ...["STUDY_ID", "SESSION_ID", "hitId", "assignmentId", "projectId", "experiment_id", "study", "session"],
];
const LIVE_KINDS = ["live", "arena"]; // speech is synthesized while the rater types

class Rater extends RaterPage {
  constructor(root, base, server) {
    const params = new URLSearchParams(location.search);
    super(root);
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

  // --- joining ----------------------------------------------------------------------------------

  async begin() {
    this.words = new Words(await this.calls.json("GET", `${this.base}/rate/words.json`));
    this.speak(navigator.language); // until the campaign sets its language
    const greeting = await this.calls.greet(this.campaign, this.key);
    this.isPreview = greeting.preview;
    this.isOpen = greeting.open;
    this.isStanding = greeting.standing; // an arena: one screen before the first battle
    this.speak(greeting.language);
    this.title(greeting.title);
    if (this.isPreview)
      Object.assign(this.part(".preview"), { hidden: false, textContent: this.words.text("preview") });
    const isKnown = PERSONS.some((name) => this.panel[name]) || this.storage.get("code");
    if (isKnown) return this.enter();
    if (!this.isOpen) return this.show({ stage: "closed" });
    if (this.isStanding) return this.enter();
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
    const position = this.words.place(trial);
    this.announce(trial.practice ? `${position}. ${this.words.text("practice")}` : position);
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

  sounds(slots) {
    return Promise.all(slots.map(async ({ url }) => this.context.decodeAudioData(await this.calls.sound(url))));
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
      let state = await this.submit(stage, data);
      if (this.isStanding && stage === "consent" && state.stage === "instructions")
        state = await this.submit("instructions", {}); // both are on one screen
      await this.show(state);
    });
  }

  async submit(stage, data) {
    try {
      const state = this.adoptToken(await this.calls.stage(stage, data));
      if (state.token && stage === "consent" && !this.isStanding) this.showCode(); // the rater is stored from here on
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
}

/** Called by Gradio when the component is in the page. */
export function start(element, { base, server }) {
  const root = element.querySelector(".rate");
  if (root.isStarted) return;
  root.isStarted = true;
  const rater = new Rater(root, base, `${server}mos/`);
  root.querySelector(".leave").addEventListener("click", () => rater.leave());
  rater.attempt(() => rater.begin());
}
