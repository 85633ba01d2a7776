// A document with just enough of the DOM for components that build elements.

export class FakeElement {
  constructor(tag, text = "") {
    this.tagName = tag.toUpperCase();
    this.parent = null;
    this.children = []; // with text nodes
    this.data = text;
    this.attributes = {};
    this.dataset = {};
    this.style = {};
    this.listeners = {};
    this.className = "";
    this.value = "";
    this.hidden = this.disabled = this.checked = false;
    this.isConnected = true;
    this.scrollTop = this.offsetTop = this.clientHeight = this.offsetHeight = 0;
  }

  get classList() {
    return {
      contains: (name) => this.className.split(" ").includes(name),
      toggle: (name, isOn = !this.classList.contains(name)) => {
        const names = new Set(this.className.split(" ").filter(Boolean));
        if (isOn) names.add(name);
        else names.delete(name);
        this.className = [...names].join(" ");
      },
      add: (name) => this.classList.toggle(name, true),
      remove: (name) => this.classList.toggle(name, false),
    };
  }

  get childNodes() {
    return this.children;
  }

  get childElementCount() {
    return this.children.filter((one) => one.tagName !== "#TEXT").length;
  }

  get firstChild() {
    return this.children[0] ?? null;
  }

  get firstElementChild() {
    return this.children.find((one) => one.tagName !== "#TEXT") ?? null;
  }

  get parentElement() {
    return this.parent;
  }

  get nextSibling() {
    return this.parent?.children[this.parent.children.indexOf(this) + 1] ?? null;
  }

  get nextElementSibling() {
    let node = this.nextSibling;
    while (node?.tagName === "#TEXT") node = node.nextSibling;
    return node;
  }

  get textContent() {
    return this.data + this.children.map((one) => one.textContent).join("");
  }

  set textContent(text) {
    this.replaceChildren();
    this.data = text;
  }

  append(...nodes) {
    for (const node of nodes) this.insertBefore(node, null);
  }

  insertBefore(node, before) {
    const one = node instanceof FakeElement ? node : new FakeElement("#text", String(node));
    one.remove();
    one.parent = this;
    this.children.splice(before ? this.children.indexOf(before) : this.children.length, 0, one);
    return one;
  }

  after(...nodes) {
    const next = this.nextSibling;
    for (const node of nodes) this.parent.insertBefore(node, next);
  }

  remove() {
    if (!this.parent) return;
    this.parent.children.splice(this.parent.children.indexOf(this), 1);
    this.parent = null;
  }

  replaceChildren(...nodes) {
    for (const one of [...this.children]) one.remove();
    this.append(...nodes);
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
    if (name === "class") this.className = value;
    if (["value", "id", "name"].includes(name)) this[name] = String(value);
  }

  getAttribute(name) {
    return this.attributes[name] ?? null;
  }

  removeAttribute(name) {
    delete this.attributes[name];
  }

  addEventListener(type, listener) {
    this.listeners[type] ??= [];
    this.listeners[type].push(listener);
  }

  emit(type, event = {}) {
    for (const listener of this.listeners[type] ?? []) listener({ target: this, ...event });
  }

  /** All descendants that fit. */
  all(fits) {
    return this.children.flatMap((one) => [...(fits(one) ? [one] : []), ...one.all(fits)]);
  }
}

/** A root whose querySelector() creates the element of a selector on first use. */
export function fakeRoot() {
  const parts = new Map();
  const root = new FakeElement("div");
  return Object.assign(root, {
    querySelector(selector) {
      if (!parts.has(selector)) parts.set(selector, new FakeElement("div"));
      return parts.get(selector);
    },
  });
}

/** @type {any} */
const scope = globalThis;
scope.document ??= {
  createElement: (tag) => new FakeElement(tag),
  createElementNS: (_, tag) => new FakeElement(tag),
  createTextNode: (text) => new FakeElement("#text", text),
  addEventListener() {},
};
