// SPDX-License-Identifier: Apache-2.0
// The page: state from the URL → one request → graph, table and panels.

import { amount, byId, count, element, percent } from "./format.js";
import { Flame } from "./flame.js";
import { SelectorInput } from "./selector.js";
import { Table } from "./table.js";
import { Tree } from "./tree.js";
import * as panels from "./panels.js";
import * as urlState from "./state.js";

const AUTO_MS = 15000; // a window is a minute; this shows it soon after it arrives
const EMPTY_MS = 5000;

let state = urlState.read();
let view = null; // the server's answer
let tree = null;
let matches = null; // { list, sum } inside the zoom
let matchAt = -1;
let loading = null;
let timer = 0;

const flame = new Flame({
  scroller: byId("scroller"),
  canvas: byId("canvas"),
  spacer: byId("spacer"),
  outline: byId("outline"),
}, {
  hover: (node, event) => panels.showTip(tree, node, flame.zoomed, view, event),
  zoom: (node) => zoomTo(node, true),
  focus: (node) => {
    const lines = panels.describe(tree, node, flame.zoomed, view);
    byId("focused").textContent = [tree.label(node), ...lines.map((line) => line.join(" "))].join(", ");
  },
  drawn: (culled, whole) => showNote(culled, whole),
});

const table = new Table(byId("table"), {
  pick: (name) => setSearch(`^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`),
  sort: (column) => {
    state.sort = column;
    urlState.write(state, false);
    table.sort = column;
    table.draw();
  },
});

const selector = new SelectorInput(byId("selector"), byId("suggestions"), { submit: submitSelector });

function showNote(culled, whole) {
  const parts = [];
  if (culled > 0) parts.push(`frames under 0.1 px are not drawn: ${percent(culled, whole)} of the width`);
  if (tree && tree.cutNodes)
    parts.push(`the ${count(tree.cutNodes)} smallest of ${count(tree.allNodes)} frames are summed up as "smaller frames"`);
  byId("note").textContent = parts.join("; ");
}

function zoomTo(node, push) {
  state.zoom = tree.path(node).map((at) => tree.label(at));
  urlState.write(state, push);
  flame.zoom(node);
  showCrumbs();
  search();
}

function showCrumbs() {
  const nav = byId("crumbs");
  const path = [0, ...tree.path(flame.zoomed)];
  const parts = [];
  const shown = path.length > 8 ? [path[0], -1, ...path.slice(-6)] : path;
  for (const node of shown) {
    if (parts.length) parts.push("›");
    if (node === -1) parts.push("…");
    else if (node === flame.zoomed) parts.push(element("span", { class: "here" }, tree.label(node)));
    else parts.push(element("button", { type: "button", title: tree.label(node), onclick: () => zoomTo(node, true) }, tree.label(node)));
  }
  const total = tree.total[flame.zoomed];
  parts.push(element("span", {}, `${amount(total, view)} · ${percent(total, tree.total[0])} of all`));
  nav.replaceChildren(...parts);
}

// A regular expression as typed; text that is none is searched for as it is.
function expression(text) {
  try {
    return new RegExp(text, /[A-Z]/.test(text) ? "" : "i");
  } catch {
    return null;
  }
}

function search() {
  const input = byId("search");
  const output = byId("matched");
  const wanted = state.search ? expression(state.search) : null;
  input.classList.toggle("wrong", Boolean(state.search) && !wanted);
  matchAt = -1;
  matches = null;
  byId("previous").disabled = byId("next").disabled = true;
  if (!tree || !wanted) {
    output.textContent = state.search ? "not a regular expression" : "";
    flame.mark(null);
    return;
  }
  const matched = tree.match(wanted);
  matches = tree.outermost(matched, flame.zoomed);
  const all = flame.zoomed ? tree.outermost(matched, 0) : matches;
  const parts = [`${percent(matches.sum, tree.total[flame.zoomed])} matched`];
  if (flame.zoomed) parts.push(`${percent(all.sum, tree.total[0])} of all`);
  output.textContent = parts.join(", ");
  byId("previous").disabled = byId("next").disabled = matches.list.length === 0;
  flame.mark(matched);
}

function setSearch(text) {
  state.search = text;
  byId("search").value = text;
  urlState.write(state, false);
  search();
}

function step(by) {
  if (!matches || !matches.list.length) return;
  matchAt = (matchAt + by + matches.list.length) % matches.list.length;
  flame.focus(matches.list[matchAt]);
}

function showTree() {
  tree = new Tree(view.tree, state.order);
  const found = tree.find(state.zoom);
  if (!found.complete) state.zoom = tree.path(found.node).map((at) => tree.label(at));
  flame.show(tree, found.node, state.shape === "icicle");
  showCrumbs();
  search();
}

async function showNothing() {
  const answer = await (await fetch("/api/v1/hosts")).json();
  panels.showEmpty(answer.hosts, view);
  table.clear();
}

async function show() {
  const isEmpty = view.stats.samples === 0;
  panels.showTypes(byId("type").children, view);
  panels.showLegend(view);
  panels.showQuality(view);
  panels.showFooter(view);
  showParts(!isEmpty);
  showTree();
  if (isEmpty) {
    await showNothing();
    return;
  }
  panels.hideMessage();
  flame.resize();
  flame.toRoot();
  table.show(view, tree.total[0], state.sort);
  if (byId("builds").open) loadBuilds();
}

const refusals = {
  0: "The collector cannot be reached",
  400: "This selection is not valid",
  422: "This selection is too large",
  503: "The collector is busy",
};

// What is on the screen stays, unless there is nothing yet.
function showRefusal(status, reason) {
  panels.showError(refusals[status] || `The collector answered ${status}`, reason);
  if (!view) showParts(false);
}

function showParts(isShown) {
  for (const id of ["graph", "table", "crumbs", "builds"]) byId(id).hidden = !isShown;
}

async function load() {
  loading?.abort();
  const own = new AbortController();
  loading = own;
  clearTimeout(timer);
  document.body.classList.add("busy");
  showExports();
  try {
    const answer = await fetch(`/api/v1/query?${urlState.apiQuery(state)}`, { signal: own.signal });
    const body = await answer.json();
    byId("selector").classList.toggle("wrong", answer.status === 400);
    if (answer.ok) {
      view = body;
      await show();
    } else {
      showRefusal(answer.status, body.reason);
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    showRefusal(0, error.message);
  }
  if (own !== loading) return;
  document.body.classList.remove("busy");
  schedule();
}

function schedule() {
  const isEmpty = view && view.stats.samples === 0;
  clearTimeout(timer);
  if (state.to !== "now" || document.hidden) return;
  if (state.auto === "1") timer = setTimeout(load, AUTO_MS);
  else if (isEmpty) timer = setTimeout(load, EMPTY_MS);
}

async function loadBuilds() {
  const container = byId("builds").querySelector("div");
  try {
    const answer = await fetch(`/api/v1/builds?${urlState.apiQuery(state)}`);
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.reason);
    panels.showBuilds(container, body);
  } catch (error) {
    container.replaceChildren(element("p", {}, error.message));
  }
}

function showExports() {
  for (const link of byId("export").querySelectorAll("a"))
    link.href = `/api/v1/query?${urlState.apiQuery(state, {
      format: link.dataset.format,
      icicle: state.shape === "icicle" ? "1" : "0",
      download: "1",
    })}`;
}

// Local time as the input writes it.
function toInput(seconds) {
  const date = new Date(seconds * 1000);
  date.setMinutes(date.getMinutes() - date.getTimezoneOffset());
  return date.toISOString().slice(0, 19);
}

function showControls() {
  byId("selector").value = state.selector;
  byId("search").value = state.search;
  byId("auto").checked = state.auto === "1";
  for (const group of ["type", "shape", "order"])
    for (const button of byId(group).children)
      button.setAttribute("aria-pressed", String(button.dataset.value === state[group]));
  const root = byId("root");
  if (![...root.options].some((option) => option.value === state.root))
    root.append(element("option", { value: state.root }, state.root));
  root.value = state.root;
  const range = byId("range");
  const isRelative = state.to === "now" && [...range.options].some((option) => option.value === state.from);
  range.value = isRelative ? state.from : "absolute";
  byId("absolute").hidden = isRelative;
  if (!isRelative && /^\d/.test(state.from)) byId("from").value = toInput(Number(state.from));
  if (!isRelative && /^\d/.test(state.to)) byId("to").value = toInput(Number(state.to));
}

function change(changes, { reload = true } = {}) {
  Object.assign(state, changes);
  urlState.write(state, true);
  showControls();
  if (reload) {
    load();
    return;
  }
  showExports();
  if (view && view.stats.samples) showTree();
}

function submitSelector() {
  change({ selector: byId("selector").value.trim(), zoom: [] });
}

function chooseRange() {
  const value = byId("range").value;
  if (value !== "absolute") {
    change({ from: value, to: "now" });
    return;
  }
  const now = Math.floor(Date.now() / 1000);
  byId("absolute").hidden = false;
  byId("from").value = toInput(now - 3600);
  byId("to").value = toInput(now);
  chooseAbsolute();
}

function chooseAbsolute() {
  const from = Math.floor(new Date(byId("from").value).getTime() / 1000);
  const to = Math.floor(new Date(byId("to").value).getTime() / 1000);
  if (Number.isFinite(from) && Number.isFinite(to)) change({ from: String(from), to: String(to) });
}

function escape() {
  if (state.search) setSearch("");
  else if (flame.zoomed) zoomTo(tree.parent[flame.zoomed], true);
}

function onKey(event) {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (event.target.id === "search") event.target.blur();
    escape();
  } else if (!isTyping && event.key === "/") {
    byId("search").focus();
    byId("search").select();
  } else if (!isTyping && event.key === "n") step(1);
  else if (!isTyping && event.key === "N") step(-1);
  else return;
  event.preventDefault();
}

function wire() {
  for (const group of ["type", "shape", "order"])
    byId(group).addEventListener("click", (event) => {
      const value = event.target.dataset.value;
      if (value) change({ [group]: value }, { reload: group === "type" });
    });
  byId("root").addEventListener("change", () => change({ root: byId("root").value, zoom: [] }));
  byId("range").addEventListener("change", chooseRange);
  byId("from").addEventListener("change", chooseAbsolute);
  byId("to").addEventListener("change", chooseAbsolute);
  byId("refresh").addEventListener("click", load);
  byId("auto").addEventListener("change", () => change({ auto: byId("auto").checked ? "1" : "0" }));
  byId("search").addEventListener("input", () => setSearch(byId("search").value));
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
  });
  byId("next").addEventListener("click", () => step(1));
  byId("previous").addEventListener("click", () => step(-1));
  byId("builds").addEventListener("toggle", () => { if (byId("builds").open && view) loadBuilds(); });
  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) schedule(); });
  addEventListener("resize", () => flame.resize());
  addEventListener("popstate", () => {
    state = urlState.read();
    showControls();
    load();
  });
}

showControls();
wire();
load();
