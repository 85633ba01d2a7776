// The service worker of the installed app: a page for when the server cannot be reached. It stores nothing else.
// Its address changes with every release, so that each one stores its own page.

/** @type {any} */
const worker = self;
const { scope } = worker.registration; // ends with a slash
const CACHES = `studio-offline ${scope} `; // another studio may be below another path of this host
const CACHE = CACHES + location.href;
const PAGE = new URL("offline/", location.href).href;
const UNREACHABLE = [502, 504]; // a proxy's answers in place of a server that is down
const OTHERS = ["rate", "annotate"]; // pages of raters and annotators do not name the studio

async function store() {
  const cache = await caches.open(CACHE);
  for (const language of [navigator.language.slice(0, 2), "en"]) {
    const page = await fetch(`${PAGE}${language}.html`);
    if (page.ok) return cache.put(PAGE, page);
  }
  throw new Error("the server has no page for when it cannot be reached");
}

async function dropOthers() {
  const names = await caches.keys();
  await Promise.all(
    names.filter((name) => name.startsWith(CACHES) && name !== CACHE).map((name) => caches.delete(name)),
  );
}

/** Whether an address may be that of a page: all of them are directly below the scope. */
function isPage(address) {
  const path = new URL(address).pathname.slice(new URL(scope).pathname.length);
  return /^[a-z-]*$/.test(path) && !OTHERS.includes(path);
}

/** The server's answer, or the stored page without one. */
async function open(event) {
  const stored = async () => (await (await caches.open(CACHE)).match(PAGE)) ?? Response.error();
  try {
    const response = (await event.preloadResponse) ?? (await fetch(event.request));
    return UNREACHABLE.includes(response.status) ? await stored() : response;
  } catch {
    return stored();
  }
}

worker.addEventListener("install", (event) => {
  worker.skipWaiting();
  event.waitUntil(store());
});
worker.addEventListener("activate", (event) => {
  // The request of a page does not wait until this worker has started.
  event.waitUntil(Promise.all([dropOthers(), worker.registration.navigationPreload?.enable()]));
});
worker.addEventListener("fetch", (event) => {
  const { method, mode, url } = event.request;
  if (mode === "navigate" && method === "GET" && isPage(url)) event.respondWith(open(event));
});
