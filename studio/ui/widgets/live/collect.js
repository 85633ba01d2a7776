// "Add to a listening test": what was just said becomes a stimulus of a draft. For the owner alone, who signed in on
// the Listening tests page of this browser tab.

const KEPT = "studio-owner"; // where studio/ui/owner.py keeps the token
const NEW = "\n"; // no campaign can have this name

export class Collect {
  constructor(root, server) {
    this.server = server;
    this.form = root.querySelector(".collect");
    const field = (name) => this.form.querySelector(`[name="${name}"]`);
    [this.campaign, this.name, this.template] = [field("campaign"), field("new"), field("template")];
    this.said = this.form.querySelector("output");
    this.campaign.addEventListener("change", () => this.choose());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.add();
    });
  }

  /** An utterance has ended and its trace is there; or, with null, another one begins. */
  async offer(urls) {
    const trace = /traces\/([\w-]+)\.trace$/.exec(urls?.trace_url ?? "")?.[1];
    this.trace = trace;
    this.form.hidden = true;
    this.said.textContent = "";
    if (!trace || !sessionStorage.getItem(KEPT)) return;
    const { ok, body } = await this.call("drafts");
    if (!ok || this.trace !== trace) return;
    this.fill(body);
    this.form.hidden = false;
  }

  fill({ drafts, templates }) {
    const before = this.campaign.value;
    const option = (text, value = text) => new Option(text, value);
    this.campaign.replaceChildren(...drafts.map((name) => option(name)), option("A new test", NEW));
    if (drafts.includes(before)) this.campaign.value = before;
    if (!this.template.length) this.template.replaceChildren(...templates.map((name) => option(name)));
    this.choose();
  }

  choose() {
    const isNew = this.campaign.value === NEW;
    for (const field of [this.name, this.template]) field.hidden = field.disabled = !isNew;
  }

  async add() {
    const isNew = this.campaign.value === NEW;
    const name = isNew ? this.name.value.trim() : this.campaign.value;
    if (!name) return this.tell("Give the new test a name.", "error");
    const { trace } = this;
    this.form.inert = true;
    this.tell("Adding");
    const path = `campaigns/${encodeURIComponent(name)}/utterances`;
    const { ok, body } = await this.call(path, { trace, template: isNew ? this.template.value : null });
    this.form.inert = false;
    if (this.trace !== trace) return undefined;
    if (!ok) return this.tell(body.message, "error");
    this.tell(`Added to ${body.campaign}: ${body.item} by ${body.system}.`);
    if (!isNew) return undefined;
    this.campaign.prepend(new Option(name, name));
    this.campaign.value = name;
    this.name.value = "";
    return this.choose();
  }

  tell(text, level = "info") {
    this.said.textContent = text;
    this.said.dataset.level = level;
  }

  async call(path, body) {
    const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEPT)}`, "Content-Type": "application/json" };
    try {
      const sent = body && { method: "POST", body: JSON.stringify(body) };
      const answer = await fetch(new URL(`mos/owner/${path}`, this.server), { headers, ...sent });
      return { ok: answer.ok, body: await answer.json() };
    } catch {
      return { ok: false, body: { message: "The server does not answer. Try again." } };
    }
  }
}
