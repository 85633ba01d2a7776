// What the person does: every control of the page and what it sets going.

/** Hear the page's buttons, its switches and its keys; `examples` get a button each. */
export function listen(page, examples) {
  const { root } = page;
  const box = root.querySelector(".examples");
  for (const { title, text } of examples) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: title, title: text });
    button.addEventListener("click", () => page.example(text));
    box.append(button);
  }
  const longest = examples.reduce((best, e) => (e.text.length > best.length ? e.text : best), "");
  root.querySelector("#live-llm").value = longest;
  root.querySelector('[data-set="told"]').addEventListener("change", (e) => page.tellReaders(e.target.checked));
  root.querySelector('[data-set="smooth"]').addEventListener("change", (e) => {
    page.tell({ type: "smooth", isSmooth: e.target.checked });
    page.settings.changedNext("pace");
  });
  root.ownerDocument.addEventListener("keydown", (page.escape = (e) => e.key === "Escape" && !e.isComposing && page.isActive && page.do("stop")));
  for (const type of ["pointerdown", "keydown"]) root.ownerDocument.addEventListener(type, (page.wake = () => page.gesture()), true);
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
