// Tips of terms: a mark behind a label that shows the explanation, and leads to the Glossary page.

import { t } from "../page/translate.js";

/** A link to the term's explanation, which it shows while it is focused or under the pointer. */
function tip({ id, name, text }) {
  const link = document.createElement("a");
  link.className = "term";
  link.href = `./glossary#${id}`;
  link.dataset.tip = t(text);
  link.setAttribute("aria-label", `${t(name)}: ${t(text)}`);
  return link;
}

/** The table of terms, as the page's properties have it. */
export class Terms {
  constructor(terms = []) {
    this.byId = new Map(terms.map((term) => [term.id, term]));
    this.byOption = new Map(terms.flatMap((term) => Object.keys(term.options ?? {}).map((name) => [name, term])));
  }

  /** A tip behind each element with a data-term. */
  addTips(root) {
    for (const node of root.querySelectorAll("[data-term]")) {
      const term = this.byId.get(node.dataset.term);
      if (term && !node.querySelector(".term")) node.append(tip(term));
    }
  }

  /** The term's name as a link to its explanation; only the name if it is not in the table. */
  link(id) {
    const term = this.byId.get(id);
    const link = document.createElement("a");
    link.textContent = t(term?.name ?? id);
    if (term) Object.assign(link, { href: `./glossary#${id}`, title: t(term.text) });
    return link;
  }

  /** The option with its plain name and help, and whether it is shown outside Advanced; unchanged if not in the table. */
  plainOption(option) {
    const term = this.byOption.get(option.name);
    if (!term) return option;
    const { id, name, options, isPlain } = term;
    return { ...option, label: name, help: options[option.name], term: id, isPlain: Boolean(isPlain) };
  }
}
