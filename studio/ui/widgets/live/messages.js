// Handlers of the Worker's messages and of events from the server.

import { decimal, language, t } from "../page/translate.js";

const SLOW = t("This computer can't keep up, so you will hear pauses between words.");

// By the code of an error. The server's message says more, in English.
const FAILURES = {
  bad_message: t("The page and the server do not match: reload the page."),
  bad_option: t("A setting is not allowed."),
  bad_text: t("This text can't be spoken."),
  bad_voice: t("The voice could not be loaded."),
  closing: t("The server is shutting down."),
  idle: t("The connection was unused for too long."),
  internal: t("The server failed."),
  no_memory: t("The server has no memory left for another voice."),
  replica_lost: t("The connection to the voice was lost."),
  stuck: t("The voice does not answer."),
  system_failed: t("The other system failed."),
  too_late: t("This part was spoken already."),
  unavailable: t("The server's storage can't be used at the moment."),
};

/** An error in the page's language; the Worker's own messages have a translation, the server's are added as they are. */
function errorText({ code, message, values }) {
  const text = t(message, values);
  return language === "en" || text !== message || !FAILURES[code] ? text : `${FAILURES[code]} (${message})`;
}

/** The position in the queue, as text. */
function queuePosition(ahead) {
  if (!ahead) return t("In queue: you are next.");
  return ahead === 1
    ? t("In queue: 1 person ahead of you.")
    : t("In queue: {count} people ahead of you.", { count: ahead });
}

/** Show the queue position; null: admitted. */
function queue(page, ahead) {
  page.ahead = ahead;
  if (ahead === null) page.status.drop("queue");
  else
    page.status.show(
      "warn",
      `${queuePosition(ahead)} ${t("Keep typing: your text will be spoken when it is your turn.")}`,
      "queue",
    );
  page.show();
}

const STORED = t("Your text is stored: press Speak the rest, or keep typing.");

/** After Stop: show how much was played. */
function showStopped(page, sample) {
  const count = page.playedWords ?? page.caption.ends.filter((end) => end <= sample).length;
  const values = { count, seconds: decimal(sample / page.rateHz, 1) };
  const text =
    count === 1
      ? t("Stopped. You heard 1 word, {seconds} s.", values)
      : t("Stopped. You heard {count} words, {seconds} s.", values);
  page.status.show("info", text, "stopped");
}

export const MESSAGE_HANDLERS = {
  hello(page, m) {
    page.settings.setVoices(m.voices);
    page.chat.setAvailable(m.chat === true);
  },
  socket(page, m) {
    const wasLost = page.isOnline === false;
    page.isOnline = m.state === "open";
    if (m.state === "lost")
      page.status.show("error", t("Connection lost. Reconnecting; your text is stored."), "socket");
    else if (wasLost)
      page.status.show(
        "info",
        page.hasRest && page.phase !== "waiting"
          ? t("Reconnected. Press Speak the rest, or keep typing.")
          : t("Reconnected."),
        "socket",
      );
    page.show();
  },
  batch(page, m) {
    for (const event of m.list) {
      const isColumns = event.type === "columns";
      if (!isColumns) page.root.tap?.events.push(event);
      if (!page.play) continue; // of an utterance that was cleared
      if (isColumns) {
        page.scope.push(event.data);
        continue;
      }
      page.caption.event(event);
      if (page.mode === "chat") page.chat.event(event);
      page.scope.event(event);
      EVENT_HANDLERS[event.type]?.(page, event);
    }
  },
  begin: (page, m) => page.begin(m),
  phase(page, m) {
    page.phase = m.phase;
    page.mode = m.mode;
    if (m.phase !== "open") page.lastWord.clear();
    if (m.finished) {
      page.hasSpoken = page.play !== null;
      page.root.dataset.spoken = Number(page.root.dataset.spoken ?? 0) + 1;
    }
    if (m.phase === "open") page.clearRest();
    if (m.phase === "idle") queue(page, null);
    if (m.phase === "idle") page.chat.finished(m.stopped);
    if (m.phase === "idle" || m.mode !== "old") page.caption.setHeld("");
    if (m.stopped !== undefined && page.play && !page.hasRest) showStopped(page, m.stopped);
    page.show();
  },
  queue: (page, m) => queue(page, m.ahead),
  race: (page, m) => page.race.receive(m),
  figures(page, m) {
    if (page.play?.id !== m.id) return;
    page.figures.show(m);
    page.chat.figures(m);
    page.setPasted(m.pasted && m.mode === "keyboard");
    page.root.figures = m;
  },
  cutoff(page, m) {
    page.hasRest = m.hasRest;
    page.chat.cut();
  },
  rest(page) {
    page.hasRest = true;
    if (page.isOnline) page.status.show("warn", STORED, "rest"); // else the connection messages say it
    page.show();
  },
  cleared: (page) => page.reset(),
  slow(page, m) {
    if (m.isSlow) page.status.showMinor("warn", SLOW, "slow");
    else page.status.drop("slow");
  },
  typed(page, m) {
    page.editor.show(m.text);
    page.caption.isNew = true;
  },
  held: (page, m) => page.caption.setHeld(m.text),
  trace(page, m) {
    page.history.setTrace(m.utterance, m.trace_url);
    if (page.play?.id === m.utterance) page.links(m);
  },
  recording: (page, m) => page.history.add(m),
  draft: (page, m) => page.history.setDraft(m.recording),
  note: (page, m) => page.status.note(m.code),
  error(page, m) {
    if (m.code === "closed") return; // the message was sent before the utterance ended
    if (m.code === "chat_failed") return void page.chat.cut(m.message);
    const isBusy = m.code === "busy";
    const text = isBusy
      ? t("Too many people are speaking, and the queue is full. Your text will be spoken when it is your turn.")
      : errorText(m);
    page.status.show(isBusy ? "warn" : "error", text, m.code);
  },
};

const EVENT_HANDLERS = {
  ready(page) {
    page.status.drop("busy");
    page.status.drop("bad_option"); // the rejected option has been changed
    page.canCompare = page.mode !== "chat";
    page.show();
  },
  segment: (page) => (page.isInSegment = true),
  eos: (page) => (page.isInSegment = false),
  options: (page, e) => page.settings.showActive(e.options),
  edited: (page) => page.status.note("edited"),
  cancelled: (page, e) => (page.playedWords = e.heard.length),
  failed: (page, e) => page.status.show("error", errorText(e), "failed"),
};
