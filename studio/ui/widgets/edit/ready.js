// The card beside a draft: what it lacks, notes, and its actions.

import { button, h } from "../rate/dom.js";

/** The content of the card; `actions` has `preview()`, `download()` and `open()`. */
export function readyCard(name, { state, not_ready: unready, advice, links }, actions) {
  const look = button("Preview", actions.preview);
  const save = button("Download the settings", actions.download);
  const toResults = h("a", {
    class: "button",
    href: `./results?campaign=${encodeURIComponent(name)}`,
    text: "Results",
  });
  const open = button("Open for raters", actions.open, { class: "primary", disabled: unready.length > 0 });
  const toRate = h("a", {
    class: "button",
    href: `.${links.rater}`,
    target: "_blank",
    rel: "noopener",
    text: "Rater link",
  });
  const missing = h("ul", { class: "lacking" }, ...unready.map((text) => h("li", { text })));
  const content = {
    draft: unready.length
      ? [h("h2", { text: "Not ready yet" }), missing]
      : [
          h("h2", { text: "Ready to open" }),
          h("p", { class: "muted", text: "Once it is open, it can no longer be changed." }),
        ],
    open: [
      h("h2", { text: "Open" }),
      h("p", {
        class: "muted",
        text: "An open test cannot be changed. Close it in the list of tests, and create a new draft for another test.",
      }),
    ],
    closed: [
      h("h2", { text: "Closed" }),
      h("p", { class: "muted", text: "A closed test cannot be changed. You can reopen it in the list of tests." }),
    ],
  };
  const buttons =
    state === "draft" ? [open, look, save] : [look, save, ...(state === "open" ? [toRate] : []), toResults];
  const notes = advice.map((text) => h("p", { class: "advice", text: `Note: ${text}` }));
  return [...content[state], ...notes, h("div", { class: "actions" }, ...buttons)];
}
