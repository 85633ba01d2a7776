// What the page does about each message of the Worker's, and about some events of the server's.

export const RECEIVED = {
  hello(page, m) {
    page.settings.offer(m.voices);
  },
  socket(page, m) {
    const wasLost = page.isOnline === false;
    page.isOnline = m.state === "open";
    if (m.state === "lost") page.status.say("error", "The connection to the server is lost. Trying to get it back; what you type is kept.", "socket");
    else if (wasLost) page.status.say("info", `Connected again.${page.isCutOff ? " Press Speak to hear the whole text." : ""}`, "socket");
    if (m.state !== "lost") page.isCutOff = false;
    page.show();
  },
  batch(page, m) {
    for (const event of m.list) {
      if (event.type === "columns") {
        page.scope.push(event.data);
        continue;
      }
      page.caption.event(event);
      page.scope.event(event);
      page.root.tap?.events.push(event);
      NOTED[event.type]?.(page, event);
    }
  },
  begin: (page, m) => page.begin(m),
  phase(page, m) {
    page.phase = m.phase;
    page.mode = m.mode;
    if (m.finished) {
      page.hasSpoken = true;
      page.root.dataset.said = Number(page.root.dataset.said ?? 0) + 1;
    }
    if (m.phase === "open" && m.mode !== "old") page.canCompare = true;
    if (m.phase === "idle" || m.mode !== "old") page.caption.setHeld("");
    if (m.stopped !== undefined) page.stopped(m.stopped);
    page.show();
  },
  figures(page, m) {
    page.figures.show(m);
    page.root.figures = m;
  },
  cutoff: (page) => (page.isCutOff = true),
  held: (page, m) => page.caption.setHeld(m.text),
  trace: (page, m) => page.links(m),
  note: (page, m) => page.status.note(m.code),
  error(page, m) {
    if (m.code === "closed") return; // it was on its way when the utterance ended
    const isBusy = m.code === "busy";
    const text = isBusy ? `${m.message} Your text is kept, and is spoken as soon as there is a place.` : m.message;
    page.status.say(isBusy ? "warn" : "error", text, m.code);
  },
};

const NOTED = {
  ready: (page) => page.status.drop("busy"),
  segment: (page) => (page.isInSegment = true),
  eos: (page) => (page.isInSegment = false),
  options: (page, e) => page.settings.inForce(e.options),
  edited: (page) => page.status.note("edited"),
  cancelled: (page, e) => (page.heardWords = e.heard.length),
  failed: (page, e) => page.status.say("error", e.message, "failed"),
};
