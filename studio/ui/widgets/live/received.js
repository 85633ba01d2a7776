// What the page does about each message of the Worker's, and about some events of the server's.

const SLOW =
  "This server makes speech more slowly than it is heard. Every word is held back until it is whole, so there are pauses between words.";

const BEFORE_YOU = (ahead) => (ahead ? `All places are taken: ${ahead === 1 ? "1 person is" : `${ahead} people are`} before you.` : "All places are taken: you are next.");

/** How many are before us in the queue for a place; null when it is our turn. */
function queue(page, ahead) {
  page.ahead = ahead;
  if (ahead === null) page.status.drop("queue");
  else page.status.say("warn", `${BEFORE_YOU(ahead)} Type on: your text is kept, and spoken when it is your turn.`, "queue");
  page.show();
}

const KEPT = "The race goes first. Your text is kept: press Speak the rest, or type on.";

/** Stop was pressed: say how much was heard. */
function stopped(page, sample) {
  const count = page.heardWords ?? page.caption.ends.filter((end) => end <= sample).length;
  page.status.say("info", `Stopped. You heard ${count} ${count === 1 ? "word" : "words"}, ${(sample / page.rateHz).toFixed(1)} s.`, "stopped");
}

export const RECEIVED = {
  hello(page, m) {
    page.settings.offer(m.voices);
  },
  socket(page, m) {
    const wasLost = page.isOnline === false;
    page.isOnline = m.state === "open";
    if (m.state === "lost") page.status.say("error", "The connection to the server is lost. Trying to get it back; what you type is kept.", "socket");
    else if (wasLost) page.status.say("info", `Connected again.${page.hasRest && page.phase !== "waiting" ? " Press Speak the rest, or type on." : ""}`, "socket");
    page.show();
  },
  batch(page, m) {
    for (const event of m.list) {
      const isColumns = event.type === "columns";
      if (!isColumns) page.root.tap?.events.push(event);
      if (!page.play) continue; // it is of what was cleared
      if (isColumns) {
        page.scope.push(event.data);
        continue;
      }
      page.caption.event(event);
      page.scope.event(event);
      NOTED[event.type]?.(page, event);
    }
  },
  begin: (page, m) => page.begin(m),
  phase(page, m) {
    page.phase = m.phase;
    page.mode = m.mode;
    if (m.finished) {
      page.hasSpoken = page.play !== null;
      page.root.dataset.said = Number(page.root.dataset.said ?? 0) + 1;
    }
    if (m.phase === "open") page.forgetRest();
    if (m.phase === "idle") queue(page, null);
    if (m.phase === "idle" || m.mode !== "old") page.caption.setHeld("");
    if (m.stopped !== undefined && page.play && !page.hasRest) stopped(page, m.stopped);
    page.show();
  },
  queue: (page, m) => queue(page, m.ahead),
  race: (page, m) => page.race.receive(m),
  figures(page, m) {
    if (page.play?.id !== m.id) return;
    page.figures.show(m);
    page.pasted(m.pasted && m.mode === "keyboard");
    page.root.figures = m;
  },
  cutoff: (page, m) => (page.hasRest = m.hasRest),
  kept(page) {
    page.hasRest = true;
    if (page.isOnline) page.status.say("warn", KEPT, "kept"); // else the page says that it is lost, and then that it is back
    page.show();
  },
  cleared: (page) => page.cleared(),
  slow(page, m) {
    if (m.isSlow) page.status.offer("warn", SLOW, "slow");
    else page.status.drop("slow");
  },
  typed(page, m) {
    page.editor.show(m.text);
    page.caption.isNew = true;
  },
  held: (page, m) => page.caption.setHeld(m.text),
  trace: (page, m) => page.play?.id === m.utterance && page.links(m),
  note: (page, m) => page.status.note(m.code),
  error(page, m) {
    if (m.code === "closed") return; // it was on its way when the utterance ended
    const isBusy = m.code === "busy";
    const text = isBusy ? "All places are taken, and the queue is full. Your text is kept, and is spoken as soon as there is a place." : m.message;
    page.status.say(isBusy ? "warn" : "error", text, m.code);
  },
};

const NOTED = {
  ready(page) {
    page.status.drop("busy");
    page.status.drop("bad_option"); // what was refused has been set otherwise since
    page.canCompare = true; // there was a place for it
    page.show();
  },
  segment: (page) => (page.isInSegment = true),
  eos: (page) => (page.isInSegment = false),
  options: (page, e) => page.settings.inForce(e.options),
  edited: (page) => page.status.note("edited"),
  cancelled: (page, e) => (page.heardWords = e.heard.length),
  failed: (page, e) => page.status.say("error", e.message, "failed"),
};
