// Annotation on the Inspect page: of what is kept, by the owner's token and under a name; else it says what to do.

import { token } from "../../owner/calls.js";
import { button, h } from "../../rate/dom.js";
import { Annotator } from "./annotator.js";
import { ownersSource } from "./sources.js";

const NAME_KEPT = "studio-annotator";

/** Offer it: `name` is the kept utterance's, empty where it is not kept; `keepHref` leads to where it will be. */
export function offer(viewer, root, name, keepHref) {
  const place = viewer.find(".annotation");
  place.hidden = false;
  const head = () => h("div", { class: "annotation-head" }, h("h2", { text: "Annotation" }));
  if (!name) {
    const how = keepHref ? h("a", { class: "button", href: keepHref, text: "Keep it" }) : h("a", { class: "button", href: "./library", text: "Open the Library" });
    const text = keepHref ? "What is kept in the library can be annotated." : "What is kept in the library can be annotated: add the file there.";
    return place.replaceChildren(head(), h("p", { class: "muted", text }), h("div", { class: "actions" }, how));
  }
  if (!token()) return place.replaceChildren();
  const asked = new URLSearchParams(location.search).get("annotator");
  const input = h("input", { type: "text", id: "annotation-name", maxlength: 80, autocomplete: "off", required: true });
  input.value = asked ?? localStorage.getItem(NAME_KEPT) ?? "";
  const wrong = h("p", { class: "wrong", role: "alert" });
  const begin = async (event) => {
    event?.preventDefault();
    const who = input.value.trim();
    if (!who) return;
    wrong.textContent = "";
    try {
      await Annotator.open(viewer, ownersSource(root, name, who), place);
      if (!asked) localStorage.setItem(NAME_KEPT, who);
      viewer.find(".annotation-head").append(button("Another name", () => ask()));
    } catch (error) {
      wrong.textContent = error.message;
      if (!place.contains(form)) ask();
    }
  };
  const form = h("form", { class: "begin", on: { submit: begin } }, h("label", { for: input.id, text: "Who annotates" }), input, h("button", { type: "submit", class: "primary", text: "Annotate" }), wrong);
  const ask = () => {
    viewer.annotator?.close();
    viewer.annotator = viewer.hands = null;
    viewer.scene.laneMarks([]);
    place.replaceChildren(head(), form);
  };
  ask();
  if (input.value) begin();
  return undefined;
}
