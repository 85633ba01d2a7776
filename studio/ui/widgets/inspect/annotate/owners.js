// Annotation on the Inspect page: needs a library utterance, the owner's token and an annotator name.

import { token } from "../../owner/calls.js";
import { button, h } from "../../rate/dom.js";
import { Annotator } from "./annotator.js";
import { ownersSource } from "./sources.js";

const NAME_KEY = "studio-annotator";

/** Offer annotation: `name` of the library entry or empty; `keepHref` links to the page that adds it. */
export function offer(viewer, root, name, keepHref) {
  const place = viewer.find(".annotation");
  place.hidden = false;
  const head = () => h("div", { class: "annotation-head" }, h("h2", { text: "Annotation" }));
  if (!name) {
    const how = keepHref ? h("a", { class: "button", href: keepHref, text: "Add to library" }) : h("a", { class: "button", href: "./library", text: "Open the Library" });
    const text = keepHref ? "Add this utterance to the library to annotate it." : "Add the file to the library to annotate it.";
    return place.replaceChildren(head(), h("p", { class: "muted", text }), h("div", { class: "actions" }, how));
  }
  if (!token()) return place.replaceChildren();
  const linked = new URLSearchParams(location.search).get("annotator");
  const input = h("input", { type: "text", id: "annotation-name", maxlength: 80, autocomplete: "off", required: true });
  input.value = linked ?? localStorage.getItem(NAME_KEY) ?? "";
  const wrong = h("p", { class: "wrong", role: "alert" });
  const begin = async (event) => {
    event?.preventDefault();
    const who = input.value.trim();
    if (!who) return;
    wrong.textContent = "";
    try {
      await Annotator.open(viewer, ownersSource(root, name, who), place);
      if (!linked) localStorage.setItem(NAME_KEY, who);
      viewer.find(".annotation-head").append(button("Change name", () => ask()));
    } catch (error) {
      wrong.textContent = error.message;
      if (!place.contains(form)) ask();
    }
  };
  const form = h("form", { class: "begin", on: { submit: begin } }, h("label", { for: input.id, text: "Annotator name" }), input, h("button", { type: "submit", class: "primary", text: "Annotate" }), wrong);
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
