// The card beside a draft: what it lacks, notes, and its actions.

import { counted } from "../page/plurals.js";
import { button, copy, h } from "../rate/dom.js";

/** The content of the card; `actions` has `preview()`, `download()`, `speak()` and `open()`. */
export function readyCard(name, { state, not_ready: unready, advice, links, unspoken, speaking }, actions) {
  const look = button("Preview", actions.preview);
  const save = button("Download the settings", actions.download);
  const toResults = h("a", {
    class: "button",
    href: `./results?campaign=${encodeURIComponent(name)}`,
    text: "Results",
  });
  const isSpeaking = Boolean(speaking && !speaking.over);
  const open =
    unspoken && !isSpeaking
      ? button(`Speak ${counted(unspoken, "sound")}, then open`, actions.speak, { class: "primary" })
      : button("Open for raters", actions.open, { class: "primary", disabled: unready.length > 0 || isSpeaking });
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
      h("p", { text: "Send this link to raters:" }),
      raterLink(links.rater),
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
  const buttons = state === "draft" ? [open, look, save] : [look, save, toResults];
  const notes = advice.map((text) => h("p", { class: "advice", text: `Note: ${text}` }));
  return [...content[state], ...notes, h("div", { class: "actions" }, ...buttons)];
}

/** The address for raters, with a button that copies it. */
function raterLink(path) {
  const address = new URL(`.${path}`, document.baseURI).href;
  const link = h("a", { href: address, target: "_blank", rel: "noopener", text: address });
  const press = button("Copy", () => copy(address, press, "Copied"), { "aria-label": "Copy the raters' link" });
  return h("p", { class: "rater-link" }, h("code", {}, link), press);
}
