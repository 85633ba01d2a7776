// What the page's buttons do.

import { asCurl, asPython } from "./copy.js";

export const ACTIONS = {
  speak(page) {
    if (page.phase !== "idle") return page.pause();
    if (!page.text.value.trim()) {
      page.status.say("info", "There is nothing to say yet: type something, or choose an example.", "empty");
      return page.text.focus();
    }
    page.status.clear();
    page.player.resume();
    return page.tell({ type: "speak", tMs: performance.timeOrigin + performance.now() });
  },
  finish(page) {
    page.tell({ type: "finish" });
    page.text.select();
  },
  stop(page) {
    page.tell({ type: "stop", suspended: !page.player.isAwake });
    page.player.resume();
    page.forgetRest();
  },
  clear(page) {
    page.clear();
    page.text.focus();
  },
  replay: (page) => page.tell({ type: "replay" }),
  old: (page) => page.tell({ type: "old" }),
  rest(page) {
    page.status.clear();
    page.tell({ type: "rest" });
    page.text.focus(); // the button goes
  },
  link: (page) => page.copied(page.address.link, page.address.isTooLong ? "The link is copied; the text is too long for it." : "The link is copied."),
  python: (page) => page.copied(asPython({ text: page.text.value, ...page.settings.chosen }), "The Python is copied: it speaks the text with these settings."),
  curl: (page) => page.copied(asCurl(page.root.querySelector('[data-get="heard"]').href), "The command is copied: it fetches what was heard."),
  sample(page) {
    const name = page.settings.speaker.selectedOptions[0]?.text;
    page.tell({ type: "sample", text: `Hello, I am ${name}. I will say what you type.` });
  },
  llm(page) {
    const text = page.root.querySelector("#live-llm").value;
    if (!text.trim()) return page.status.say("info", "The model has nothing to type: give it a text.");
    return page.tell({ type: "llm", text, rate: Number(page.root.querySelector("#live-rate").value) });
  },
  race(page) {
    if (page.race.isRunning) return page.race.stop();
    page.tell({ type: "makeWay", suspended: !page.player.isAwake });
    page.player.resume();
    return page.race.start(page.text.value, page.rateHz);
  },
  reseed: (page) => page.settings.reseed(),
};
