// The buttons and the chip, as what is going on wants them.

/** Buttons and the chip, as the phase wants them. */
export function show(page) {
  const { phase, player } = page;
  page.root.dataset.phase = phase;
  const isBusy = phase !== "idle";
  const button = (name) => page.root.querySelector(`[data-do="${name}"]`);
  const speak = button("speak");
  const isWaiting = phase === "waiting" || page.ahead !== null;
  speak.disabled = isWaiting;
  const label = !isBusy || isWaiting ? "Speak" : player.isPaused ? "Resume" : "Pause";
  if (speak.lastElementChild.textContent !== label) {
    speak.lastElementChild.textContent = label;
    speak.querySelector("path").setAttribute("d", label === "Pause" ? "M4 2.5h3v11H4zM9 2.5h3v11H9z" : "M4 2.5v11l9-5.5z");
  }
  button("finish").disabled = phase !== "open";
  button("stop").disabled = !page.isActive;
  button("replay").disabled = isBusy || !page.hasSpoken;
  button("old").disabled = !page.canCompare || page.isPasted || phase === "stopping" || (page.mode === "old" && isBusy);
  page.root.querySelector(".why-not").hidden = page.canCompare && !page.isPasted;
  button("rest").hidden = !page.hasRest || isBusy || !page.isOnline;
  page.status.chip(state(page), page.mode);
}

/** What is going on, in one word. */
function state(page) {
  if (!page.isOnline) return "offline";
  if (page.phase === "idle") return "idle";
  if (page.player.isPaused) return "paused";
  if (page.phase === "waiting" || page.ahead !== null) return "waiting";
  if (page.phase === "replay") return "replaying";
  if (page.isMoving) return "speaking";
  if (page.phase !== "open" || page.isInSegment) return "working"; // what is late now is not the text
  const toSay = page.caption.spelt.length - page.caption.starts.length;
  return toSay >= (page.settings.options.m ?? 1) ? "working" : "listening";
}
