// A classic script at the start of each page's body: the theme, and what happens before the page's module has loaded.

{
  const KEY = "studio-theme";
  const query = new URLSearchParams(location.search);
  const requested = query.get("__theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isGradio = () => "gradio_config" in window;
  const theme = () => requested ?? localStorage.getItem(KEY) ?? (system.matches ? "dark" : "light");
  const isStage = () => "stage" in document.body.dataset; // always dark
  const apply = () => document.body.classList.toggle("dark", isStage() || theme() === "dark");
  // The Live page's stage mode begins before the first paint, so that nothing painted moves.
  if (query.has("stage") && location.pathname.endsWith("/")) document.body.dataset.stage = theme();
  apply();
  system.addEventListener("change", apply);

  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element)) return;
    if (event.target.closest(".masthead .theme"))
      localStorage.setItem(KEY, document.body.classList.toggle("dark") ? "dark" : "light");
    /** @type {HTMLAnchorElement | null} */
    const skip = event.target.closest("a.skip");
    const content = skip && document.getElementById(skip.hash.slice(1));
    if (!content) return;
    event.preventDefault(); // the address stays as it is: pages read its fragment
    content.tabIndex = -1;
    content.focus();
    content.addEventListener("blur", () => content.removeAttribute("tabindex"), { once: true });
  });

  // Gradio sets its own theme and title when its page has loaded.
  if (isGradio()) {
    // Days are counted on the server, which reads cookies of letters, digits, - and _ only.
    const zone = btoa(Intl.DateTimeFormat().resolvedOptions().timeZone)
      .replace(/=+$/, "")
      .replaceAll("+", "-")
      .replaceAll("/", "_");
    // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is absent without HTTPS
    document.cookie = `studio-zone=${zone}; SameSite=Lax`;
    const { title, current_page: path, pages } = window.gradio_config;
    const name = pages.find(([one]) => one === path)?.[1];
    const rename = () => {
      apply();
      if (name && ["", title].includes(document.title)) document.title = `${name} · ${title}`;
    };
    new MutationObserver(rename).observe(document.head, { childList: true, subtree: true, characterData: true });
    rename();
  }

  // A module that cannot be fetched: the server was updated or is not running.
  addEventListener(
    "error",
    ({ target }) => {
      if (!(target instanceof HTMLScriptElement)) return;
      /** @type {any} */
      const line = document.querySelector("main .status") ?? document.querySelector("main");
      const texts = JSON.parse(document.getElementById("texts")?.textContent ?? "{}");
      const t = (text) => texts[text] ?? text;
      line.textContent = t("This page could not be loaded: the server was updated or is not running. Reload it.");
      line.dataset.level = "error";
      line.hidden = false;
    },
    true,
  );

  // The installed app's page for when the server cannot be reached; raters' pages have no manifest.
  const { src } = /** @type {any} */ (document.currentScript);
  addEventListener("load", () => {
    if (!navigator.serviceWorker || !document.querySelector('link[rel="manifest"]')) return;
    const scope = new URL("./", location.href).href;
    navigator.serviceWorker.register(new URL("service_worker.js", src), { scope }).catch(console.warn);
  });

  // Ctrl+Enter on the Live page before its script runs finishes the text.
  document.addEventListener("keydown", (event) => {
    /** @type {any} */
    const root = document.querySelector(".live");
    if (root && !root.live && event.key === "Enter" && (event.ctrlKey || event.metaKey)) root.isFinished = true;
  });

  // Marks of an address, before the first paint: a shared link's card and its text, and a comparison that is opened.
  if (/^[\w-]{22}$/.test(query.get("heard") ?? "")) document.body.dataset.heard = "";
  if ((query.has("trace") || query.has("kept")) && /\/compare\/?$/.test(location.pathname))
    document.body.dataset.opening = "";
  const giveText = () => {
    /** @type {any} */
    const field = document.getElementById("live-text");
    const text = query.get("text") ?? "";
    if (field && text && !field.value) field.value = field.given = text.slice(0, field.maxLength);
  };
  document.addEventListener("readystatechange", giveText, { once: true });

  // The trace of the Inspect page's address is requested half a second before the page's script runs.
  const trace = query.get("trace");
  if (trace && /\/inspect\/?$/.test(location.pathname)) {
    window.earlyView = fetch(`./traces/${encodeURIComponent(trace)}.view`);
    window.earlyView.catch(() => {});
  }
}
