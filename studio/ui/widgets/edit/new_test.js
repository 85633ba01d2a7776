// The page of a new test: a name, whether to begin with an example, and the kinds of test, a click on which creates it.

import { counted } from "../page/plurals.js";
import { h } from "../rate/dom.js";
import { check } from "./fields.js";

const EXAMPLE_VOICES = 2; // the fewest that a pair needs

/** The systems that an example test begins with: the first speakers, `VOICE:SPEAKER`. */
const exampleSystems = (voices) =>
  voices.flatMap(({ name, speakers }) => speakers.map((speaker) => `${name}:${speaker}`)).slice(0, EXAMPLE_VOICES);

/** A name that no test has. */
function freeName(taken) {
  let n = 1;
  while (taken.includes(`test-${n}`)) n += 1;
  return `test-${n}`;
}

/**
 * The page. `taken` are the names of the owner's tests; `create` takes `{template, name, systems, texts}`.
 */
export function newTest({ templates, example_texts: texts }, voices, taken, create) {
  const name = h("input", {
    type: "text",
    id: "edit-name",
    maxlength: 80,
    autocomplete: "off",
    value: freeName(taken),
  });
  const systems = exampleSystems(voices);
  const choice = { isExample: systems.length > 0 };
  const start = (template) => {
    const example = { systems, texts };
    const content = choice.isExample ? example : { systems: [], texts: "" };
    return create({ template, name: name.value.trim(), ...content });
  };
  const field = h(
    "div",
    { class: "field" },
    h("label", { for: "edit-name", text: "Name" }),
    name,
    h("small", { class: "muted", text: "Only you see the name. Raters see the title." }),
  );
  const count = counted(texts.trim().split("\n").length, "example text");
  const example = check(
    choice,
    "isExample",
    `Begin with ${systems.length === 1 ? "the voice" : "the voices"} ${systems.join(" and ")} and ${count}; you can replace them`,
    () => {},
  );
  return [
    h("h1", { text: "New listening test" }),
    h("p", {
      class: "muted",
      text: "Choose a kind of test: a draft with its settings is created. You can change everything except the kind.",
    }),
    h(
      "div",
      { class: "new-test" },
      field,
      systems.length ? example : null,
      h(
        "section",
        { class: "kinds", "aria-label": "Kinds of test" },
        ...templates.map((one) => kindCard(one, () => start(one.name))),
      ),
    ),
  ];
}

function kindCard({ name, title, about, asks }, take) {
  const quoted = asks.map(({ prompt }) => `“${prompt}”`).join(" ");
  const id = `edit-kind-${name}`;
  return h(
    "button",
    {
      type: "button",
      class: "kind-card",
      "aria-labelledby": id,
      "aria-describedby": `${id}-about`,
      data: { template: name },
      on: { click: take },
    },
    h("b", { id, text: title }),
    h("span", { id: `${id}-about`, text: about }),
    h("small", { class: "muted", text: quoted }),
  );
}
