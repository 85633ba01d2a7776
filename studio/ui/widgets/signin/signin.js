// The sign-in page: exchanges the owner's token for a cookie, and goes on to the page that asked for it.

import { Calls, isOwner } from "../owner/calls.js";

const PAGE = /^[a-z]*(\?.*)?$/; // a page of this server, with its query

export function start(element, { server }) {
  const form = element.querySelector("form");
  const signedIn = element.querySelector(".signed-in");
  form.hidden = isOwner();
  signedIn.hidden = !isOwner();
  const calls = new Calls(server, "mos/owner/");
  signedIn.querySelector("button").addEventListener("click", async () => {
    await calls.call("DELETE", "session");
    location.replace(server);
  });
  const status = form.querySelector(".status");
  const wanted = new URLSearchParams(location.search).get("next") ?? "";
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const token = form.elements.token.value.trim();
    try {
      await calls.post("session", { token });
      location.replace(new URL(PAGE.test(wanted) ? wanted : "", server));
    } catch (error) {
      status.textContent = error.message;
      status.hidden = false;
    }
  });
  if (!isOwner()) form.elements.token.focus();
}
