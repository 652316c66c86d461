// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them, and DOM nodes made from text only: nothing that came from a
// profile is ever parsed as markup.

const grouped = new Intl.NumberFormat("en-US");

export function count(value) {
  return grouped.format(value);
}

// Three digits, and a unit that fits: 845 ns, 12.3 ms, 1,234 s.
export function duration(ns) {
  if (ns === 0) return "0 s";
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]]) {
    if (ns < size && unit !== "ns") continue;
    const scaled = ns / size;
    if (scaled >= 1000) return `${grouped.format(Math.round(scaled))} ${unit}`;
    return `${Number(scaled.toPrecision(3))} ${unit}`;
  }
  return "";
}

// 100 % and 0 % are said only when they are exact.
export function percent(part, whole) {
  if (!whole) return "–";
  const share = (100 * part) / whole;
  if (part === whole) return "100 %";
  if (part === 0) return "0 %";
  if (share < 0.01) return "<0.01 %";
  if (share > 99.9) return ">99.9 %";
  return `${share.toFixed(share < 10 ? 2 : 1)} %`;
}

// A value of the profile in words: samples with their CPU time, or time.
export function amount(value, view) {
  if (view.unit === "nanoseconds") return duration(value);
  const samples = `${count(value)} sample${value === 1 ? "" : "s"}`;
  return view.period_ns ? `${samples}, ${duration(value * view.period_ns)}` : samples;
}

export function shortAmount(value, view) {
  if (view.unit === "nanoseconds") return duration(value);
  return view.period_ns ? duration(value * view.period_ns) : count(value);
}

export function time(ns) {
  return new Date(ns / 1e6).toLocaleString();
}

export function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export function byId(id) {
  return document.getElementById(id);
}
