// The screens before and after the trials, each drawn from the response of /mos/next.

import { entry, rest } from "./arena.js";
import { actions, card, codeRow, prose, raterCode, resumeForm } from "./cards.js";
import { Check } from "./check.js";
import { Deck, speechNoise } from "./deck.js";
import { button, h } from "./dom.js";
import { preventSpaceClick } from "./keys.js";
import { Player } from "./player.js";

const HEARD_SHARE = 0.5; // of the two seconds of noise

function consent(rater, state) {
  const { words } = rater;
  const answer = (agreed) => rater.pass("consent", { agreed, version: state.version });
  const refuse = async () => (await rater.ask("refuse_ask", "refuse_text", "leave_yes")) && answer(false);
  if (rater.isStanding) return entry(rater, state, answer, refuse);
  return card(
    words.text("consent_title"),
    prose(state.text),
    actions(
      button(words.text("agree"), () => answer(true), { class: "primary" }),
      button(words.text("disagree"), refuse),
    ),
  );
}

function screening(rater, state) {
  const { words } = rater;
  const answers = {};
  const missing = h("p", { class: "missing" });
  const questions = state.questions.map((question, k) => {
    const { id, answer } = question;
    if (answer === "text" || answer === "number") return written(question, k, words, (value) => (answers[id] = value));
    return chosenFrom(question, k, (option) => (answers[id] = option));
  });
  const send = () => {
    const wrong = state.questions.find((question) => !isAnswered(question, answers[question.id]));
    if (!wrong) return rater.pass("screening", { answers });
    missing.textContent = wrong.answer === "number" ? numberHint(wrong, words) : words.text("answer_all");
    return rater.announce(missing.textContent);
  };
  return card(
    words.text("screening_title"),
    ...questions,
    missing,
    actions(button(words.text("go_on"), send, { class: "primary" })),
  );
}

/** A fieldset of options. */
const chosenFrom = ({ prompt, options }, k, take) =>
  h(
    "fieldset",
    { class: "marks list" },
    h("legend", { text: prompt }),
    h(
      "div",
      { class: "options" },
      ...options.map((option) =>
        h(
          "label",
          {},
          h("input", { type: "radio", name: `screen-${k}`, on: { change: () => take(option) } }),
          h("span", {}, h("b", { text: option })),
        ),
      ),
    ),
  );

/** A field for a line of text or a number. */
function written({ prompt, answer, optional }, k, words, take) {
  const id = `screen-${k}`;
  const field = h("input", {
    type: "text",
    id,
    maxlength: 1000,
    autocomplete: "off",
    ...(answer === "number" ? { inputmode: "decimal" } : {}),
    on: { input: () => take(field.value.trim()) },
  });
  const label = optional ? `${prompt} (${words.text("answer_optional")})` : prompt;
  return h("div", { class: "written" }, h("label", { for: id, text: label }), field);
}

/** Whether the server will take an answer: studio.mos.campaign.config.ScreeningQuestion. */
function isAnswered({ answer, low, high, optional }, value) {
  if (!value) return Boolean(optional);
  if (answer !== "number") return true;
  const number = Number(value.replace(",", "."));
  return Number.isFinite(number) && number >= (low ?? -Infinity) && number <= (high ?? Infinity);
}

const numberHint = ({ low, high }, words) =>
  low === null || high === null ? words.text("answer_all") : words.text("answer_number", { low, high });

function instructions(rater, state) {
  const go = button(rater.words.text("go_on"), () => rater.pass("instructions", {}), { class: "primary" });
  return card(rater.words.text("instructions_title"), prose(state.text), actions(go));
}

const check = (stage) => (rater, state) => {
  rater.running = new Check(rater, stage, state);
  return rater.running.element;
};

function level(rater) {
  const { words } = rater;
  const go = button(words.text("level_done"), () => rater.pass("level", {}), { class: "primary", disabled: true });
  const first = h("p", { class: "hint", text: words.text("level_first") });
  const deck = new Deck(rater.context, [speechNoise(rater.context)], {
    loop: true,
    on: {
      silent: () => rater.notify("warn", words.text("silent")),
      changed: () => {
        player.draw();
        if (!deck.isHeard(0, HEARD_SHARE)) return;
        go.disabled = false;
        first.textContent = "";
      },
    },
  });
  const player = new Player(deck, 0, words.text("level_sound"), words, 0);
  const press = (event) => {
    if (event.key !== " " || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
      return;
    if (event.target.closest?.("button:not(.play), a, summary, textarea, input")) return;
    event.preventDefault();
    if (!event.repeat) deck.toggle(0);
  };
  document.addEventListener("keydown", press);
  document.addEventListener("keyup", preventSpaceClick);
  const close = () => {
    document.removeEventListener("keydown", press);
    document.removeEventListener("keyup", preventSpaceClick);
    deck.close();
  };
  rater.running = { close };
  return card(
    words.text("level_title"),
    prose(words.text("level_text")),
    h("div", { class: "sounds" }, player.element),
    actions(go),
    first,
    h("p", { class: "keys", text: words.text("keys_level") }),
  );
}

function comments(rater) {
  const { words } = rater;
  const field = h("textarea", { id: "rate-comment", rows: 4, maxlength: 4000 });
  field.value = rater.storage.get("comment") ?? "";
  field.addEventListener("input", () => rater.storage.set("comment", field.value));
  const send = () => rater.pass("comments", { comment: field.value });
  return card(
    words.text("comments_title"),
    h("label", { for: "rate-comment", text: words.text("comments_text") }),
    field,
    actions(button(words.text("finish"), send, { class: "primary" })),
  );
}

function done(rater, state) {
  const { words } = rater;
  rater.storage.drop("comment");
  return card(
    words.text("done_title"),
    prose(state.text),
    ...panelExit(rater, state, words.text("completion")),
    ...raterCode(rater),
  );
}

/** The completion code or redirect of the panel. */
function panelExit(rater, state, label) {
  const { words } = rater;
  const redirect = /^https?:\/\//i.test(state.redirect ?? "") ? state.redirect : null;
  const rows = [];
  if (state.code) rows.push(codeRow(rater, label, state.code));
  if (redirect && rater.isPreview)
    rows.push(h("p", { class: "hint", text: words.text("redirect_preview", { url: redirect }) }));
  else if (redirect) {
    rows.push(
      h(
        "p",
        {},
        h("span", { text: `${words.text("redirecting")} ` }),
        h("a", { href: redirect, text: words.text("redirect_link") }),
      ),
    );
    location.replace(redirect);
  }
  return rows;
}

const messageCard =
  (name) =>
  (rater, state = {}) =>
    card(
      rater.words.text(`${name}_title`),
      prose(rater.words.text(`${name}_text`)),
      ...panelExit(rater, state, rater.words.text("panel_code")),
    );

/** Delete the code here too: the link then starts a new rater. */
function refused(rater, state) {
  rater.storage.drop("code");
  return messageCard("refused")(rater, state);
}

/** Drawing functions by stage; rate.js draws trials. */
export const STAGES = {
  consent,
  screening,
  instructions,
  headphones: check("headphones"),
  environment: check("environment"),
  level,
  comments,
  rest,
  done,
  refused,
  screened_out: messageCard("screened_out"),
  withdrawn: messageCard("withdrawn"),
  full: messageCard("full"),
  closed: messageCard("closed"),
  bad_link: messageCard("bad_link"),
};

/** Before joining: begin, or resume with a code from another browser. */
export function welcome(rater) {
  const { words } = rater;
  return h(
    "div",
    { class: "card text" },
    h("p", { class: "body-text", tabindex: -1, text: words.text("welcome") }),
    actions(button(words.text("begin"), () => rater.attempt(() => rater.enter()), { class: "primary" })),
    resumeForm(rater),
  );
}
