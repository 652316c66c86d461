// SPDX-License-Identifier: Apache-2.0
// Autocompletion of the label selector: names after { and a comma, values inside quotes.

import { element } from "./format.js";

// What is being written at the end of the text before the cursor.
export function contextOf(text) {
  const value = /([A-Za-z_][\w.-]*)\s*(?:=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)$/.exec(text);
  if (value) return { kind: "value", name: value[1], prefix: value[2].replace(/\\(.)/g, "$1") };
  const name = /(?:^\s*|[{,]\s*)([A-Za-z_][\w.-]*)?$/.exec(text);
  if (name) return { kind: "name", prefix: name[1] || "" };
  return null;
}

// The text with the choice put in for the prefix, and where the cursor goes.
export function complete(before, after, context, choice) {
  if (context.kind === "name") {
    let head = before.slice(0, before.length - context.prefix.length);
    if (!head.includes("{")) head = `{${head.trim()}`;
    const text = `${head}${choice}="`;
    return { text: text + after, cursor: text.length };
  }
  const start = before.lastIndexOf('"', before.length - 1);
  const quoted = choice.replace(/[\\"]/g, "\\$&").replace(/\n/g, "\\n");
  const rest = after.replace(/^(?:[^"\\}]|\\.)*"?/, "");
  const head = `${before.slice(0, start + 1)}${quoted}"`;
  return { text: head + (rest.trim() ? rest : "}"), cursor: head.length };
}

export class SelectorInput {
  constructor(input, list, events) {
    this.input = input;
    this.list = list;
    this.events = events; // submit()
    this.chosen = -1;
    this.asked = 0;
    input.addEventListener("input", () => this.suggest());
    input.addEventListener("focus", () => this.suggest());
    input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    input.addEventListener("keydown", (event) => this.key(event));
  }

  async suggest() {
    const before = this.input.value.slice(0, this.input.selectionStart);
    const context = contextOf(before);
    const asked = ++this.asked;
    if (!context) return this.close();
    let items = [];
    try {
      items = await this.load(context);
    } catch {
      items = []; // suggestions are a convenience; the query itself reports what is wrong
    }
    if (asked !== this.asked || document.activeElement !== this.input) return undefined;
    return this.open(context, items.slice(0, 50));
  }

  async load(context) {
    if (context.kind === "name") {
      const answer = await (await fetch("/api/v1/labels")).json();
      return answer.labels.filter((name) => name.startsWith(context.prefix));
    }
    const url = `/api/v1/label/${encodeURIComponent(context.name)}/values?prefix=${encodeURIComponent(context.prefix)}`;
    return (await (await fetch(url)).json()).values;
  }

  open(context, items) {
    this.context = context;
    this.items = items;
    this.chosen = -1;
    this.list.replaceChildren(...items.map((text, i) => element("li", {
      role: "option",
      id: `suggestion-${i}`,
      "aria-selected": "false",
      onmousedown: (event) => { event.preventDefault(); this.take(i); },
    }, text)));
    this.list.hidden = items.length === 0;
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
  }

  close() {
    this.asked++;
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  choose(index) {
    const options = this.list.children;
    this.chosen = (index + options.length) % options.length;
    for (let i = 0; i < options.length; i++)
      options[i].setAttribute("aria-selected", String(i === this.chosen));
    options[this.chosen].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", `suggestion-${this.chosen}`);
  }

  take(index) {
    const cursor = this.input.selectionStart;
    const done = complete(this.input.value.slice(0, cursor), this.input.value.slice(cursor),
      this.context, this.items[index]);
    this.input.value = done.text;
    this.input.setSelectionRange(done.cursor, done.cursor);
    if (this.context.kind === "name") this.suggest();
    else this.close();
  }

  key(event) {
    const isOpen = !this.list.hidden;
    if (event.key === "ArrowDown" && isOpen) this.choose(this.chosen + 1);
    else if (event.key === "ArrowUp" && isOpen) this.choose(this.chosen - 1);
    else if ((event.key === "Enter" || event.key === "Tab") && isOpen && this.chosen >= 0) this.take(this.chosen);
    else if (event.key === "Enter") { this.close(); this.events.submit(); }
    else if (event.key === "Escape" && isOpen) this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
