// Event listeners and state of the page's controls.

import { t } from "../page/translate.js";

/** Attach the listeners, and create a button for each example. */
export function bindControls(page, examples) {
  const { root } = page;
  const box = root.querySelector(".examples");
  for (const { title, text } of examples) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: t(title), title: text });
    button.addEventListener("click", () => page.example(text));
    box.append(button);
  }
  const longest = examples.reduce((best, e) => (e.text.length > best.length ? e.text : best), "");
  root.querySelector("#live-llm").value = longest;
  if (matchMedia("(max-width: 560px)").matches) root.querySelector(".llm").open = false;
  root
    .querySelector('[data-set="announce"]')
    .addEventListener("change", (e) => page.caption.setAnnounced(e.target.checked));
  root.querySelector('[data-set="smooth"]').addEventListener("change", (e) => {
    page.post({ type: "smooth", isSmooth: e.target.checked });
    page.settings.showPending("pace");
  });
  page.escape = (e) => e.key === "Escape" && !e.isComposing && page.isActive && page.do("stop");
  page.wake = () => page.gesture();
  root.ownerDocument.addEventListener("keydown", page.escape);
  for (const type of ["pointerdown", "keydown"]) root.ownerDocument.addEventListener(type, page.wake, true);
  root.addEventListener("click", (e) => {
    const name = e.target.closest("[data-do]")?.dataset.do;
    if (name) page.do(name);
  });
  const rate = root.querySelector("#live-rate");
  rate.addEventListener("input", () => (rate.parentElement.querySelector("output").textContent = rate.value));
  page.leave = () => page.dispose();
  addEventListener("pagehide", page.leave);
  addEventListener("pageshow", (e) => e.persisted && location.reload());
}

/** Update the buttons and the chip. */
export function updateControls(page) {
  const { phase, player } = page;
  page.root.dataset.phase = phase;
  const isBusy = phase !== "idle";
  const button = (name) => page.root.querySelector(`[data-do="${name}"]`);
  const speak = button("speak");
  const isWaiting = phase === "waiting" || page.ahead !== null;
  speak.disabled = isWaiting;
  const label = !isBusy || isWaiting ? t("Speak") : player.isPaused ? t("Resume") : t("Pause");
  if (speak.lastElementChild.textContent !== label) {
    speak.lastElementChild.textContent = label;
    speak
      .querySelector("path")
      .setAttribute("d", label === t("Pause") ? "M4 2.5h3v11H4zM9 2.5h3v11H9z" : "M4 2.5v11l9-5.5z");
  }
  button("finish").disabled = phase !== "open" || page.mode === "chat";
  button("clear").textContent = page.editor.cleared ? t("Undo") : t("Clear");
  button("stop").disabled = !page.isActive;
  button("replay").disabled = isBusy || !page.hasSpoken;
  button("old").disabled = !page.canCompare || page.isPasted || phase === "stopping" || (page.mode === "old" && isBusy);
  page.root.querySelector(".why-not").hidden = page.canCompare && !page.isPasted;
  button("rest").hidden = !page.hasRest || isBusy || !page.isOnline;
  page.shared.update();
  page.status.chip(state(page), page.mode);
  const voice = page.settings.speaker.selectedOptions[0]?.text ?? "";
  page.mediaKeys.update(!isBusy ? "none" : player.isPaused ? "paused" : "playing", voice);
}

/** The state shown by the chip. */
function state(page) {
  if (!page.isOnline) return "offline";
  if (page.phase === "idle") return "idle";
  if (page.player.isPaused) return "paused";
  if (page.phase === "waiting" || page.ahead !== null) return "waiting";
  if (page.phase === "replay") return "replaying";
  if (page.isMoving) return "speaking";
  if (page.phase !== "open" || page.isInSegment) return "working"; // not waiting for text
  const pending = page.caption.spellings.length - page.caption.starts.length;
  return pending >= (page.settings.options.m ?? 1) ? "working" : "listening";
}
