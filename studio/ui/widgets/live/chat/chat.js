// Talk with a language model: questions, replies whose words light up as they are heard, and the messages sent to the model.

import { decimal, t } from "../../page/translate.js";

const MAX_MESSAGES = 39; // of the 40 that the server takes: begins and ends with a question
const CUT = "\u2026"; // ends a reply that was interrupted
const Recognition = window.SpeechRecognition ?? window.webkitSpeechRecognition;

const nowMs = () => performance.timeOrigin + performance.now();

/** The reply as the model receives it. */
export function heardMessage(text, isCut) {
  const heardText = text.trim();
  return { role: "assistant", content: isCut ? `${heardText} ${CUT}`.trim() : heardText };
}

/** One reply, while it is spoken. */
class Reply {
  constructor(node) {
    this.node = node;
    this.node.append(document.createElement("span"), document.createElement("span"));
    this.askedMs = nowMs();
    this.tokenMs = this.wordMs = this.soundMs = null;
    this.chars = []; // as sent to the voice, in code points
    this.ends = []; // word i -> the end of its characters
    this.starts = []; // word i -> sample
    this.heardWord = null; // index of the last word that had begun, by the server
    this.isCut = false; // the reply broke off
    this.isShown = false;
  }

  event(e) {
    if (e.type === "text") {
      this.tokenMs ??= nowMs();
      this.chars.splice(e.char_start, this.chars.length, ...Array.from(e.text));
    } else if (e.type === "committed") {
      this.wordMs ??= nowMs();
      this.ends[e.i] = e.char_end;
    } else if (e.type === "word_start") this.starts[e.i] = e.sample;
    else if (e.type === "cancelled") this.heardWord = e.word;
    else return;
    this.isShown = false;
  }

  /** The text up to the last word that began before a sample. */
  text(sample) {
    const begun = this.starts.findLastIndex((start) => start < sample);
    const word = Math.max(begun, this.heardWord ?? -1);
    return this.chars.slice(0, this.ends[word] ?? 0).join("");
  }

  /** Show which part was heard; whether that changed. */
  show(heardText) {
    const [was, rest] = this.node.children;
    if (this.isShown && was.textContent === heardText) return false;
    was.textContent = heardText;
    rest.textContent = this.chars.slice(Array.from(heardText).length).join("");
    this.isShown = true;
    return true;
  }

  /** The latencies from the question on. */
  ladder() {
    const steps = [
      [t("first text"), this.tokenMs],
      [t("first word"), this.wordMs],
      [t("first sound"), this.soundMs],
    ];
    const timed = steps
      .filter(([, ms]) => ms !== null)
      .map(([name, ms]) => `${name} ${Math.round(ms - this.askedMs)} ms`);
    return [t("question"), ...timed].join(" \u2192 ");
  }
}

export class Chat {
  /** `on`: ask(messages), stop(), isActive(). */
  constructor(root, on) {
    this.on = on;
    this.panel = root.querySelector(".chat");
    this.log = this.panel.querySelector(".chat-log");
    this.form = this.panel.querySelector("form");
    this.field = this.panel.querySelector("textarea");
    this.note = this.panel.querySelector(".chat-note");
    this.newButton = this.panel.querySelector('[data-chat="new"]');
    this.dictate = this.panel.querySelector('[data-chat="dictate"]');
    this.messages = [];
    this.reply = this.pending = null;
    this.form.addEventListener("submit", (e) => {
      e.preventDefault();
      this.submit();
    });
    this.field.addEventListener("keydown", (e) => {
      if (e.isComposing || e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === "Enter" && !e.shiftKey) {
        e.preventDefault();
        this.submit();
      } else if (e.key.length === 1 && this.reply) this.on.stop(); // a key interrupts
    });
    this.newButton.addEventListener("click", () => this.reset());
    this.dictate.hidden = !Recognition;
    this.dictate.addEventListener("click", () => this.listen());
  }

  /** Show the section where the server has a language model. */
  setAvailable(isAvailable) {
    this.panel.hidden = !isAvailable;
  }

  submit() {
    const question = this.field.value.trim();
    if (this.on.isActive()) this.on.stop();
    if (!question) return;
    this.field.value = "";
    if (this.on.isActive())
      this.pending = question; // until the speech has stopped
    else this.ask(question);
  }

  ask(question) {
    this.messages.push({ role: "user", content: question });
    this.add("user").textContent = question;
    this.reply = new Reply(this.add("assistant"));
    this.note.textContent = "";
    this.newButton.disabled = false;
    const sent = this.messages.slice(-MAX_MESSAGES);
    this.on.ask(sent[0].role === "user" ? sent : sent.slice(1));
  }

  add(role) {
    const item = document.createElement("li");
    item.dataset.role = role;
    const label = document.createElement("span");
    label.className = "sr-only";
    label.textContent = role === "user" ? t("You:") : t("The model:");
    const text = document.createElement("p");
    item.append(label, text);
    this.log.append(item);
    this.log.scrollTop = this.log.scrollHeight;
    return text;
  }

  /** An event of the reply's utterance. */
  event(e) {
    this.reply?.event(e);
  }

  figures(m) {
    if (this.reply && m.audible_at_ms) this.reply.soundMs ??= m.audible_at_ms;
  }

  /** One animation frame: the words that began before `sample` are lit. */
  tick(sample) {
    if (!this.reply) return;
    if (this.reply.show(this.reply.text(sample)) && !this.log.matches(":hover")) this.follow(this.reply);
  }

  /** Scroll to the word that is heard. */
  follow({ node }) {
    const top = node.lastElementChild.offsetTop - this.log.offsetTop;
    const { scrollTop, clientHeight } = this.log;
    if (top < scrollTop || top > scrollTop + 0.8 * clientHeight) this.log.scrollTop = top - 0.5 * clientHeight;
  }

  /** The reply broke off; `message` says why, if the server did. */
  cut(message = "") {
    if (!this.reply) return;
    this.reply.isCut = true;
    if (message) this.note.textContent = message;
  }

  /** Nothing is spoken any more. `stopped`: the sample at which the listener interrupted; undefined: played to its end. */
  finished(stopped) {
    const { reply, pending } = this;
    this.reply = this.pending = null;
    if (reply) this.keep(reply, stopped);
    if (pending !== null) this.ask(pending);
  }

  keep(reply, stopped) {
    const wasStopped = stopped !== undefined;
    const heardText = wasStopped || reply.isCut ? reply.text(stopped ?? Infinity) : reply.chars.join("");
    if (reply.chars.length) this.messages.push(heardMessage(heardText, wasStopped || reply.isCut));
    else this.messages.pop(); // the question has no reply
    reply.show(heardText);
    reply.node.classList.toggle("cut", wasStopped || reply.isCut);
    const ended = t("end {seconds} s", { seconds: decimal((nowMs() - reply.askedMs) / 1000, 1) });
    const ladder = `${reply.ladder()} \u2192 ${ended}`;
    this.note.textContent = reply.isCut && this.note.textContent ? `${this.note.textContent} (${ladder})` : ladder;
  }

  reset() {
    if (this.reply) this.on.stop();
    this.messages = [];
    this.reply = this.pending = null;
    this.log.replaceChildren();
    this.note.textContent = "";
    this.newButton.disabled = true;
    this.field.focus();
  }

  /** Take a question from the microphone. */
  listen() {
    if (this.on.isActive()) this.on.stop();
    this.recognition?.abort();
    const recognition = new Recognition();
    this.recognition = recognition;
    Object.assign(recognition, { lang: "en-US", interimResults: true });
    recognition.onresult = ({ results }) => {
      this.field.value = Array.from(results, (one) => one[0].transcript).join("");
      if (results[results.length - 1].isFinal) this.submit();
    };
    recognition.onerror = () => (this.note.textContent = t("The browser did not understand a question."));
    recognition.onend = () => this.dictate.removeAttribute("aria-pressed");
    this.dictate.setAttribute("aria-pressed", "true");
    recognition.start();
  }

  dispose() {
    this.recognition?.abort();
  }
}
