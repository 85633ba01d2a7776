// The form for a new test: a kind of test, and a name.

import { h } from "../rate/dom.js";

/** The form; `create` takes `{template, name}`. */
export function newTest(templates, create) {
  const request = { template: "", name: "" };
  const name = h("input", {
    type: "text",
    id: "edit-name",
    maxlength: 80,
    required: true,
    autocomplete: "off",
    on: { input: () => (request.name = name.value.trim()) },
  });
  const kinds = templates.map((one) => kindCard(one, () => (request.template = one.name)));
  const submit = (event) => {
    event.preventDefault();
    return create(request);
  };
  const field = h(
    "div",
    { class: "field" },
    h("label", { for: "edit-name", text: "Name" }),
    name,
    h("small", { class: "muted", text: "Only you see the name. Raters see the title." }),
  );
  const form = h(
    "form",
    { class: "new-test", on: { submit } },
    h("fieldset", { class: "kinds" }, h("legend", { text: "Kind of test" }), ...kinds),
    field,
    h("div", { class: "actions" }, h("button", { type: "submit", class: "primary", text: "Create draft" })),
  );
  return [
    h("h1", { text: "New listening test" }),
    h("p", {
      class: "muted",
      text: "The test starts as a draft with the settings of a template. You can change everything except the kind.",
    }),
    form,
  ];
}

function kindCard({ name, title, about, asks }, take) {
  const input = h("input", {
    type: "radio",
    name: "edit-template",
    value: name,
    required: true,
    on: { change: take },
  });
  const quoted = asks.map(({ prompt }) => `“${prompt}”`).join(" ");
  return h(
    "label",
    { class: "kind-card" },
    input,
    h(
      "span",
      {},
      h("b", { text: title }),
      h("span", { text: about }),
      h("small", { class: "muted", text: `${name}: ${quoted}` }),
    ),
  );
}
