// The voices as a group of cards: what each is good at, its measured figures, and a button that lets it speak.

import { voiceName } from "../../options/option_controls.js";
import { t } from "../../page/translate.js";
import { figureBars } from "./figure_bars.js";

const PLAY = "M4 2.5v11l9-5.5z";

export class VoiceCards {
  /**
   * @param list element of the cards
   * @param speakers control of the speakers, shown in the selected card
   * @param terms what the figures mean
   * @param changed called when the user selects another voice
   */
  constructor(list, speakers, terms, changed) {
    this.list = list;
    this.speakers = speakers;
    this.terms = terms;
    this.changed = changed;
    this.cards = new Map(); // by the voice's name: {node, input}
  }

  /** Show these voices; the first one is selected. */
  setVoices(voices) {
    this.cards = new Map(voices.map((voice) => [voice.name, this.card(voice)]));
    this.list.replaceChildren(...Array.from(this.cards.values(), ({ node }) => node));
    if (voices.length) this.value = voices[0].name;
  }

  /** The name of the selected voice; empty before there are voices. */
  get value() {
    return [...this.cards].find(([, { input }]) => input.checked)?.[0] ?? "";
  }

  set value(name) {
    const card = this.cards.get(name);
    if (!card) return;
    card.input.checked = true;
    card.node.append(this.speakers);
  }

  select(name) {
    const card = this.cards.get(name);
    if (card.node.contains(this.speakers)) return;
    const { activeElement } = document;
    this.value = name;
    card.node.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (activeElement instanceof HTMLElement) activeElement.focus({ preventScroll: true });
    this.changed();
  }

  card(voice) {
    const node = element("div", "voice-card");
    const label = element("label", "voice-name");
    const input = document.createElement("input");
    Object.assign(input, { type: "radio", name: "live-voice", value: voice.name });
    input.dataset.set = "voice";
    input.addEventListener("change", () => this.select(voice.name));
    label.append(input, element("b", "", voiceName(voice)), element("span", "voice-system", systemOf(voice)));
    const about = element("p", "voice-about", t(voice.about));
    about.id = `live-about-${voice.name}`;
    if (voice.about) input.setAttribute("aria-describedby", about.id);
    node.append(
      label,
      hearButton(voice, () => this.select(voice.name)),
      about,
      ...figureBars(voice.figures ?? {}, this.terms),
    );
    return { node, input };
  }
}

/** The system, such as SpeakStream, from a title "Wren: SpeakStream, two English speakers". */
function systemOf(voice) {
  const [, rest = ""] = voice.title?.split(": ") ?? [];
  return rest.split(",")[0];
}

/** Its click selects the voice first; then the page's action speaks a sample. */
function hearButton(voice, select) {
  const button = element("button", "quiet voice-hear");
  button.type = "button";
  button.dataset.do = "sample";
  button.title = t("Hear {voice}", { voice: voiceName(voice) });
  button.setAttribute("aria-label", button.title);
  button.innerHTML = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${PLAY}"/></svg>`;
  button.addEventListener("click", select);
  return button;
}

function element(tag, name, text = "") {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.textContent = text;
  return node;
}
