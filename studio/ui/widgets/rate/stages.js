// The screens before and after the trials, each drawn from the response of /mos/next.

import { Check } from "./check.js";
import { Deck, speechNoise } from "./deck.js";
import { button, copy, h } from "./dom.js";
import { preventSpaceClick } from "./keys.js";
import { Player } from "./player.js";

const HEARD_SHARE = 0.5; // of the two seconds of noise

/** A card with a focusable heading, where a screen reader starts. */
export const card = (title, ...rest) =>
  h("div", { class: "card text" }, h("h2", { text: title, tabindex: -1 }), ...rest);

const prose = (text) => h("p", { class: "body-text", text: text ?? "" });
const actions = (...buttons) => h("div", { class: "actions" }, ...buttons);

function consent(rater, state) {
  const { words } = rater;
  const answer = (agreed) => rater.pass("consent", { agreed, version: state.version });
  const refuse = async () => (await rater.ask("refuse_ask", "refuse_text", "leave_yes")) && answer(false);
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

/** No battle is available now: why, and until when. */
function rest(rater, state) {
  const { words } = rater;
  const why =
    state.why === "pairs"
      ? words.text("rest_pairs")
      : words.text("rest_day", { n: Math.max(1, Math.ceil((state.wait_s ?? 0) / 3600)) });
  return card(words.text("rest_title"), prose(why), actions(ladder(rater)), ...raterCode(rater));
}

/** After an arena vote: the names of the two voices. */
export function revealed(rater, { voices, titles }, outcome) {
  const { words } = rater;
  const names = voices.map((system, k) =>
    h(
      "div",
      {},
      h("dt", { text: words.text("arena_voice", { name: "AB"[k] }) }),
      h("dd", { text: titles?.[k] ?? system, title: system }),
    ),
  );
  const chose = words.text("arena_chose", { choice: words.text(`ab_${outcome}`) });
  const next = button(words.text("arena_next"), () => rater.proceed(), { class: "primary" });
  return card(
    words.text("arena_told"),
    h("p", { class: "hint", text: chose }),
    h("dl", { class: "voices" }, ...names),
    actions(next, ladder(rater)),
    ...raterCode(rater),
  );
}

const ladder = (rater) =>
  h("a", {
    class: "button",
    href: new URL("../arena", rater.calls.server).href,
    text: rater.words.text("arena_ladder"),
  });

/** The code for resuming in another browser and for erasure. */
function raterCode(rater) {
  const code = rater.storage.get("code");
  return code ? [h("p", { class: "hint", text: rater.words.text("own_code", { code }) })] : [];
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

/** A code with a copy button. */
export function codeRow(rater, label, code) {
  const press = button(rater.words.text("copy"), () => copy(code, press, rater.words.text("copied")));
  return h("p", { class: "code-row" }, h("span", { text: label }), h("code", { text: code }), press);
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
  const go = (code) =>
    rater.attempt(async () => {
      try {
        await rater.enter(code);
      } catch (error) {
        if (!code || error.status !== 422) throw error;
        missing.textContent = words.text("code_form");
      }
    });
  const field = h("input", {
    type: "text",
    id: "rate-code",
    autocomplete: "off",
    autocapitalize: "characters",
    maxlength: 40,
    spellcheck: "false",
  });
  const missing = h("p", { class: "missing", role: "status" });
  const resume = (event) => {
    event.preventDefault();
    if (field.value.trim()) go(field.value);
  };
  const form = h(
    "form",
    { class: "resume", on: { submit: resume } },
    h("label", { for: "rate-code", text: words.text("code_field") }),
    field,
    h("button", { type: "submit", text: words.text("code_use") }),
    missing,
  );
  return h(
    "div",
    { class: "card text" },
    h("p", { class: "body-text", tabindex: -1, text: words.text("welcome") }),
    actions(button(words.text("begin"), () => go(null), { class: "primary" })),
    h("details", {}, h("summary", { text: words.text("have_code") }), form),
  );
}
