// The Glossary page: every term with its explanation, each with an address of its own.

/** Called when the component is in the page. */
export function start(element, { props }) {
  const rows = props.terms.map(({ id, name, text }) => {
    const row = document.createElement("div");
    const [term, explanation] = ["dt", "dd"].map((tag) => document.createElement(tag));
    row.id = id;
    term.textContent = name;
    explanation.textContent = text;
    row.append(term, explanation);
    return row;
  });
  element.querySelector("dl").replaceChildren(...rows);
  if (location.hash) location.replace(location.hash); // the browser looked for it before it was there
}
