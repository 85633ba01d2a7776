// Interface texts in the rater's language, with English as the fallback.

export class Words {
  /** `languages` is words.json: texts by language and key. */
  constructor(languages) {
    this.languages = languages;
    this.setLanguage("en");
  }

  /** Set the language by its tag: "de-CH" is German. */
  setLanguage(tag) {
    const short = String(tag ?? "")
      .toLowerCase()
      .split(/[-_]/)[0];
    this.language = short in this.languages ? short : "en";
    this.texts = this.languages[this.language];
  }

  /** A text with its {places} filled. */
  text(key, values = {}) {
    const template = this.texts[key] ?? this.languages.en[key];
    return template.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
  }

  /** "3 of 20", or "Battle 3" in an arena. */
  place({ position, of }) {
    return of ? this.text("position", { n: position + 1, of }) : this.text("arena_battle", { n: position + 1 });
  }
}
