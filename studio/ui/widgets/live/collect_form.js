// "Add to a listening test": the last utterance becomes a stimulus of a draft. Shown only to the owner.

import { isOwner } from "../owner/calls.js";
import { t } from "../page/translate.js";

const NEW = "\n"; // not a valid campaign name

export class CollectForm {
  constructor(root, server) {
    this.server = server;
    this.form = root.querySelector(".collect");
    const field = (name) => this.form.querySelector(`[name="${name}"]`);
    this.campaign = field("campaign");
    this.name = field("new");
    this.template = field("template");
    this.output = this.form.querySelector("output");
    this.button = this.form.querySelector('[type="submit"]');
    this.undoButton = this.form.querySelector(".undo");
    this.undoButton.addEventListener("click", () => this.undo());
    this.campaign.addEventListener("change", () => this.campaignChanged());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.add();
    });
  }

  /** Offer an utterance whose trace is stored; null hides the form. */
  async offer(urls) {
    const trace = /traces\/([\w-]+)\.trace$/.exec(urls?.trace_url ?? "")?.[1];
    this.trace = trace;
    this.form.hidden = true;
    this.message("");
    this.askAgain(false);
    this.setLast(null);
    if (!trace || !isOwner()) return;
    const { ok, body } = await this.call("drafts");
    if (!ok || this.trace !== trace) return;
    this.fill(body);
    this.form.hidden = false;
  }

  fill({ drafts, templates }) {
    const before = this.campaign.value;
    const option = (text, value = text) => new Option(text, value);
    this.campaign.replaceChildren(...drafts.map((name) => option(name)), option(t("A new test"), NEW));
    if (drafts.includes(before)) this.campaign.value = before;
    if (!this.template.length)
      this.template.replaceChildren(...Object.entries(templates).map(([name, title]) => option(title, name)));
    this.campaignChanged();
  }

  campaignChanged() {
    const isNew = this.campaign.value === NEW;
    for (const field of [this.name, this.template]) field.hidden = field.disabled = !isNew;
    this.askAgain(false);
  }

  /** Whether adding would make the draft incomplete: the button asks for confirmation. */
  askAgain(isIncomplete) {
    this.needsConfirmation = isIncomplete;
    this.button.textContent = isIncomplete ? t("Add anyway") : t("Add");
  }

  /** The last addition, which can be undone; null for none. */
  setLast(addition) {
    this.last = addition;
    this.undoButton.hidden = !addition;
  }

  async add() {
    const isNew = this.campaign.value === NEW;
    const name = isNew ? this.name.value.trim() : this.campaign.value;
    if (!name) return this.message(t("Enter a name for the new test."), "error");
    const { trace } = this;
    this.form.inert = true;
    this.message(t("Adding"));
    const path = `campaigns/${encodeURIComponent(name)}/utterances`;
    const { ok, body } = await this.call(path, {
      trace,
      template: isNew ? this.template.value : null,
      sure: this.needsConfirmation,
    });
    this.form.inert = false;
    if (this.trace !== trace) return undefined;
    this.askAgain(body.code === "leaves_holes");
    if (!ok) return this.message(body.message, this.needsConfirmation ? "warn" : "error");
    this.message(t("Added to {campaign}: {item} by {system}.", body));
    this.setLast(body);
    if (!isNew) return undefined;
    this.campaign.prepend(new Option(name, name));
    this.campaign.value = name;
    this.name.value = "";
    return this.campaignChanged();
  }

  /** Undo the last addition; also deletes a draft created for it. */
  async undo() {
    const { campaign, item, system } = this.last;
    this.form.inert = true;
    const { ok, body } = await this.call(`campaigns/${encodeURIComponent(campaign)}/remove`, { item, system });
    this.form.inert = false;
    if (!ok) return this.message(body.message, "error");
    this.setLast(null);
    this.message(body.left ? t("Removed from {campaign}.", { campaign }) : t("{campaign} was deleted.", { campaign }));
    if (body.left) return undefined;
    Array.from(this.campaign.options)
      .find((option) => option.value === campaign)
      ?.remove();
    return this.campaignChanged();
  }

  message(text, level = "info") {
    this.output.textContent = text;
    this.output.dataset.level = level;
  }

  async call(path, body) {
    const headers = { "Content-Type": "application/json" };
    try {
      const request = body && { method: "POST", body: JSON.stringify(body) };
      const response = await fetch(new URL(`mos/owner/${path}`, this.server), { headers, ...request });
      return { ok: response.ok, body: await response.json() };
    } catch {
      return { ok: false, body: { message: t("The server did not respond. Try again.") } };
    }
  }
}
