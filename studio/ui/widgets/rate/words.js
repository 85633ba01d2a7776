// The interface in the rater's language; English where a language or a word is missing.

export class Words {
  /** `every` is rate.words.json: texts by language and key. */
  constructor(every) {
    this.every = every;
    this.speak("en");
  }

  /** Take a language by its tag: "de-CH" is German. */
  speak(tag) {
    const short = String(tag ?? "").toLowerCase().split(/[-_]/)[0];
    this.language = short in this.every ? short : "en";
    this.mine = this.every[this.language];
  }

  /** A text with its {places} filled. */
  say(key, values = {}) {
    const text = this.mine[key] ?? this.every.en[key];
    return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
  }

  /** Where a rater is: the screen of how many, or the battle where there is no end. */
  place({ position, of }) {
    return of ? this.say("position", { n: position + 1, of }) : this.say("arena_battle", { n: position + 1 });
  }
}
