// Rater texts, panel and stopping rules.

import { h } from "../rate/dom.js";
import { area, check, choice, labelled, line, number, row, section } from "./fields.js";

export function words(settings, changed) {
  const { texts } = settings;
  return section(
    "What raters read",
    "",
    row(
      labelled("Title", line(texts, "title", changed, { maxlength: 200 })),
      labelled(
        "Language",
        line(texts, "language", changed, { maxlength: 12 }),
        "language of the interface: en, de, fr, es or ja",
      ),
    ),
    labelled("Instructions", area(texts, "instructions", changed, { rows: 7 })),
    h(
      "details",
      {},
      h("summary", { text: "Consent and thanks" }),
      labelled(
        "Consent",
        area(texts, "consent", changed, { rows: 12 }),
        "shown first; nothing is stored about people who do not agree",
      ),
      row(labelled("Version of the consent", number(texts, "consent_version", changed, { low: 1, high: 9999 }))),
      labelled("Thanks", area(texts, "thanks", changed, { rows: 3 })),
    ),
  );
}

/** Completion links of a panel, the stopping rule, and the margin of "no worse than". */
export function panel(settings, changed) {
  const { completion, stop, margins } = settings;
  const exit = (of, text) =>
    row(
      labelled(`Code: ${text}`, nullable(of, "code", changed, 120)),
      labelled(`Address: ${text}`, nullable(of, "redirect_url", changed, 1000, "https://…")),
    );
  const interim = { text: stop.looks.join(", ") };
  const changedLooks = () => {
    stop.looks = interim.text
      .split(/[ ,;]+/)
      .filter(Boolean)
      .map(Number);
    changed();
  };
  return section(
    "Panel and stopping",
    "",
    h(
      "details",
      {},
      h("summary", { text: "Completion codes for a panel (Prolific)" }),
      exit(completion, "finished"),
      exit(completion.screened_out, "screened out"),
      exit(completion.full, "quota full"),
      exit(completion.refused, "did not agree"),
    ),
    h(
      "details",
      {},
      h("summary", { text: "Stopping rule" }),
      row(
        labelled(
          "Every interval at most ±",
          number(stop, "half_width", changed, { low: 0, step: "any", empty: true }),
          "empty = off",
        ),
        labelled("Interim analyses after raters", line(interim, "text", changedLooks, { maxlength: 400 })),
        labelled(
          "Alpha spending",
          choice(
            stop,
            "spending",
            [
              ["obrien_fleming", "O'Brien–Fleming"],
              ["pocock", "Pocock"],
            ],
            changed,
          ),
        ),
      ),
      row(check(stop, "decided", "Stop when every pair of systems differs significantly", changed)),
    ),
    h(
      "details",
      {},
      h("summary", { text: "Margin: no worse by more than" }),
      row(
        labelled(
          "Of the scores",
          number(margins, "score", changed, { low: 0, step: "any", empty: true }),
          "steps or points; empty = off",
        ),
        labelled(
          "Of the share of votes",
          number(margins, "share", changed, { low: 0, high: 0.5, step: "any", empty: true }),
          "0.05: at least 45 of 100 votes; empty = off",
        ),
        labelled(
          "No worse than this system",
          nullable(settings, "baseline", changed, 120),
          "the baseline; empty = every pair is tested",
        ),
      ),
      h("p", {
        class: "muted",
        text: "Choose the margin before the test: the largest difference that does not matter.",
      }),
    ),
  );
}

/** A text field whose empty value is null. */
function nullable(of, name, changed, maxlength, placeholder = "") {
  const form = { value: of[name] ?? "" };
  const update = () => {
    of[name] = form.value.trim() || null;
    changed();
  };
  return line(form, "value", update, { maxlength, placeholder });
}
