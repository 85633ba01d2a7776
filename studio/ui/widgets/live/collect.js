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
    this.button = this.form.querySelector('[type="submit"]');
    this.back = this.form.querySelector(".undo");
    this.back.addEventListener("click", () => this.undo());
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
    this.tell("");
    this.doubt(false);
    this.added(null);
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
    this.doubt(false);
  }

  /** Whether the draft would be spoiled: the button asks once more. */
  doubt(isDoubted) {
    this.isDoubted = isDoubted;
    this.button.textContent = isDoubted ? "Add all the same" : "Add";
  }

  /** What was added last, and can be taken back; null for nothing. */
  added(what) {
    this.last = what;
    this.back.hidden = !what;
  }

  async add() {
    const isNew = this.campaign.value === NEW;
    const name = isNew ? this.name.value.trim() : this.campaign.value;
    if (!name) return this.tell("Give the new test a name.", "error");
    const { trace } = this;
    this.form.inert = true;
    this.tell("Adding");
    const path = `campaigns/${encodeURIComponent(name)}/utterances`;
    const { ok, body } = await this.call(path, { trace, template: isNew ? this.template.value : null, sure: this.isDoubted });
    this.form.inert = false;
    if (this.trace !== trace) return undefined;
    this.doubt(body.code === "leaves_holes");
    if (!ok) return this.tell(body.message, this.isDoubted ? "warn" : "error");
    this.tell(`Added to ${body.campaign}: ${body.item} by ${body.system}.`);
    this.added(body);
    if (!isNew) return undefined;
    this.campaign.prepend(new Option(name, name));
    this.campaign.value = name;
    this.name.value = "";
    return this.choose();
  }

  /** Take back what was added last; a draft that was made for it goes with it. */
  async undo() {
    const { campaign, item, system } = this.last;
    this.form.inert = true;
    const { ok, body } = await this.call(`campaigns/${encodeURIComponent(campaign)}/remove`, { item, system });
    this.form.inert = false;
    if (!ok) return this.tell(body.message, "error");
    this.added(null);
    this.tell(body.left ? `Taken out of ${campaign} again.` : `${campaign} is deleted again.`);
    if (body.left) return undefined;
    Array.from(this.campaign.options).find((option) => option.value === campaign)?.remove();
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
