// SPDX-License-Identifier: Apache-2.0
// What stands around the graph: how far it can be trusted, messages, builds, tooltip.

import { amount, byId, count, duration, element, percent, time } from "./format.js";

const nouns = {
  cpu: "CPU samples",
  off_cpu: "off-CPU time",
  run_queue: "run-queue time",
  waker: "wake-ups",
  wall: "time on or off the CPU",
};

// A button for each type that the range holds, and for the one that is shown.
export function showTypes(buttons, view) {
  const holds = (type) => view.holding[type] > 0;
  const isThere = {
    cpu: true,
    off_cpu: true,
    run_queue: holds("run_queue"),
    waker: holds("waker"),
    wall: holds("off_cpu") && holds("cpu"),
  };
  for (const button of buttons)
    button.hidden = !isThere[button.dataset.value] && button.dataset.value !== view.type;
}

// What the colours of the cold boxes mean, and what each part comes to.
export function showLegend(view) {
  const box = byId("legend");
  const item = (kind, text) => element("span", {}, element("i", { class: `swatch ${kind}` }), text);
  const time = (type) => {
    const ns = view.stats.type_ns[type] || 0;
    return `${duration(ns)}, ${percent(ns, view.stats.nanoseconds)}`;
  };
  const items = {
    wall: () => [
      item("user", `on the CPU, any other bare top: ${time("cpu")}`),
      item("wait", `off the CPU, blocked: ${time("off_cpu")}`),
      ...(view.stats.recorded.run_queue || view.stats.type_ns.run_queue
        ? [item("ready", `off the CPU, ready to run: ${time("run_queue")}`)] : []),
    ],
    waker: () => [item("wake", "woken by: below it who slept, above it who ended that, from leaf to root")],
  }[view.type];
  box.hidden = !items;
  if (items) box.replaceChildren(...items());
}

// The worst of the reasons, or that there is none.
function headline(quality) {
  const worst = quality.reasons.find((reason) => reason.level === quality.level);
  return worst ? worst.text : "Good profile";
}

// Why walks stopped in a build: each reason in words, with its share where there are several.
function reasonsOf(build) {
  if (!build.reasons.length) return ["the agent gave no reason"];
  return build.reasons.map((reason) => element("div", {},
    build.reasons.length > 1 ? `${percent(reason.stacks, build.stopped)}: ` : "", reason.text,
    ...(reason.fix ? [" ", element("i", {}, `→ ${reason.fix}`)] : [])));
}

// The builds that cut stacks short, the worst first.
function shortStacks(builds) {
  const head = ["Build", "Stacks cut", "Of all", "Why, and what can be done"].map((text, i) =>
    element("th", i === 1 || i === 2 ? {} : { class: "left" }, text));
  const rows = builds.map((build) => element("tr", {},
    element("td", { class: "left wrap", title: `${build.path}\n${build.build_id}` },
      build.path.split("/").pop() || "(no path)", " ",
      element("small", {}, build.build_id.slice(0, 12))),
    element("td", { title: `of ${count(build.stacks)} that have it at an end` }, count(build.stopped)),
    element("td", {}, `${(100 * build.share).toFixed(1)} %`),
    element("td", { class: "left wrap" }, ...reasonsOf(build))));
  return element("table", { class: "short" },
    element("caption", {}, "Where user stacks are cut short"),
    element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

export function showQuality(view) {
  const box = byId("quality");
  const quality = view.quality;
  const isOpen = box.querySelector("details")?.open;
  box.className = "";
  box.hidden = !view.stats.samples;
  if (box.hidden) return;
  if (!quality) {
    box.replaceChildren("This profile carries no quality record.");
    return;
  }
  box.className = quality.level;
  const others = quality.reasons.filter((reason) => reason.text !== headline(quality));
  const lines = others.map((reason) => element("li", {}, reason.text));
  box.replaceChildren(element("details", isOpen ? { open: "" } : {},
    element("summary", {}, element("b", {}, headline(quality)), ` · ${quality.line}`),
    ...(lines.length ? [element("ul", {}, ...lines)] : []),
    element("pre", {}, quality.text),
    ...(quality.worst_builds.length ? [shortStacks(quality.worst_builds)] : [])));
}

export function showError(title, text) {
  const box = byId("message");
  box.className = "bad";
  box.hidden = false;
  box.replaceChildren(element("strong", {}, title), text);
}

export function hideMessage() {
  byId("message").hidden = true;
}

// Says why there is nothing to see and what to do about it.
export function showEmpty(hosts, view) {
  const box = byId("message");
  box.className = "";
  box.hidden = false;
  if (!hosts.length) {
    box.replaceChildren(element("strong", {}, "No data yet"),
      "The agent's first window arrives about a minute after it starts. This page looks again by itself. ",
      "If nothing comes, ask the agent: agentctl status, agentctl doctor.");
    return;
  }
  const newest = hosts.reduce((a, b) => (a.last_s > b.last_s ? a : b));
  box.replaceChildren(element("strong", {}, "Nothing matches this selection"),
    `No ${nouns[view.type] || view.type} in this range for this selector. `,
    `The newest window is from ${newest.host}, ${time(newest.last_s * 1e9)}. `,
    "Choose a longer range or a wider selector.");
}

export function showBuilds(container, view) {
  const builds = [...view.builds].sort((a, b) => a.found - b.found || b.samples - a.samples);
  const head = ["Build", "Build-ID", "Samples", "Symbols"].map((text, i) =>
    element("th", i === 2 ? {} : { class: "left" }, text));
  const rows = builds.map((build) => element("tr", {},
    element("td", { class: "left wrap" }, build.path || "(no path)"),
    element("td", { class: "left", title: build.build_id },
      build.build_id ? `${build.build_id.slice(0, 16)}${build.build_id.length > 16 ? "…" : ""}` : "none"),
    element("td", {}, count(build.samples)),
    element("td", { class: `left ${build.found ? "found" : "missing"}` }, build.status)));
  container.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows)));
}

export function showFooter(view) {
  const stats = view.stats;
  const parts = [
    `${count(stats.batches)} windows of ${count(stats.hosts)} host${stats.hosts === 1 ? "" : "s"}`,
    `${count(view.tree.all_nodes)} frames in the tree`,
    `symbols of ${count(view.symbols.found)} of ${count(view.symbols.found + view.symbols.missing)} builds`,
    `computed in ${duration(stats.elapsed_ns)}`,
  ];
  if (stats.samples)
    parts.unshift(`${time(stats.first_start_ns)} – ${time(stats.last_end_ns)}`);
  if (stats.mixed_periods) parts.push("sampling rates differ, so values are CPU time");
  if (stats.gone_batches) parts.push(`${count(stats.gone_batches)} windows expired meanwhile`);
  if (stats.damaged_batches) parts.push(`${count(stats.damaged_batches)} windows are unreadable`);
  byId("footer").textContent = stats.batches_read || stats.samples ? parts.join(" · ") : "";
}

export function describe(tree, node, zoomed, view) {
  const total = tree.total[node];
  const lines = [
    ["total", amount(total, view), `${percent(total, tree.total[0])} of all`],
    ["self", amount(tree.self[node], view), `${percent(tree.self[node], tree.total[0])} of all`],
  ];
  if (tree.off[node] && tree.off[node] < total)
    lines.push(["off CPU", `${tree.cutNodes ? "at least " : ""}${amount(tree.off[node], view)}`,
      `${percent(tree.off[node], total)} of this frame`]);
  if (zoomed && tree.isBelow(node, zoomed))
    lines[0].push(`${percent(total, tree.total[zoomed])} of the zoom`);
  return lines;
}

export function showTip(tree, node, zoomed, view, event) {
  const tip = byId("tip");
  tip.hidden = node === null;
  if (node === null) return;
  const rows = describe(tree, node, zoomed, view).map((cells) =>
    element("tr", {}, ...cells.map((text) => element("td", { class: "left" }, text))));
  const where = [tree.moduleOf(node), node ? tree.kindOf(node) : ""].filter(Boolean).join(" · ");
  tip.replaceChildren(element("b", {}, tree.label(node)), element("i", {}, where),
    element("table", {}, element("tbody", {}, ...rows)));
  const { offsetWidth: width, offsetHeight: height } = tip;
  const x = Math.min(event.clientX + 14, innerWidth - width - 8);
  const below = event.clientY + 18;
  const y = below + height > innerHeight - 8 ? event.clientY - height - 12 : below;
  tip.style.left = `${Math.max(x, 4)}px`;
  tip.style.top = `${Math.max(y, 4)}px`;
}
