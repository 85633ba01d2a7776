// The screens of an arena beside its battles: the entry, the names after a vote, and the wait for the next day.

import { actions, card, prose, raterCode, resumeForm } from "./cards.js";
import { button, h } from "./dom.js";

/** The one screen before the first battle of an arena: what to do, and the consent. */
export function entry(rater, state, answer, refuse) {
  const { words } = rater;
  const start = async () => {
    await answer(true);
    rater.running?.begin?.(0); // the consent and the first voice are one click
  };
  const consentText = h("div", {
    class: "consent-text",
    tabindex: 0,
    role: "region",
    "aria-label": words.text("consent_title"),
    text: state.text,
  });
  return card(
    words.text("instructions_title"),
    prose(state.instructions),
    h("h3", { text: words.text("consent_title") }),
    consentText,
    actions(
      button(words.text("agree_begin"), start, { class: "primary" }),
      button(words.text("disagree"), refuse),
      ladder(rater),
    ),
    resumeForm(rater),
  );
}

/** No battle is available now: why, and until when. */
export function rest(rater, state) {
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
