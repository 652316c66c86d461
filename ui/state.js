// SPDX-License-Identifier: Apache-2.0
// What is looked at and how, kept in the URL, so that a link shows the same view.

const defaults = {
  type: "cpu",
  selector: "",
  from: "now-15m",
  to: "now",
  root: "none",
  shape: "flame",
  order: "name",
  search: "",
  auto: "0",
  sort: "total",
};

const allowed = {
  type: ["cpu", "off_cpu", "run_queue", "waker", "wall"],
  shape: ["flame", "icicle"],
  order: ["name", "size"],
  auto: ["0", "1"],
  sort: ["name", "self", "total"],
};

// zoom: names from below the root to the frame that fills the width.
export function read() {
  const url = new URLSearchParams(location.search);
  const state = { ...defaults, zoom: url.getAll("zoom") };
  for (const key of Object.keys(defaults)) {
    const value = url.get(key);
    if (value !== null && (!allowed[key] || allowed[key].includes(value))) state[key] = value;
  }
  return state;
}

// push: a step that the browser's back button undoes.
export function write(state, push) {
  const url = new URLSearchParams();
  for (const key of Object.keys(defaults))
    if (state[key] !== defaults[key]) url.set(key, state[key]);
  for (const name of state.zoom) url.append("zoom", name);
  const text = url.toString();
  const target = text ? `?${text}` : location.pathname;
  if (push) history.pushState(null, "", target);
  else history.replaceState(null, "", target);
}

// Parameters of the API for this state.
export function apiQuery(state, more) {
  const url = new URLSearchParams({
    type: state.type,
    selector: state.selector,
    from: state.from,
    to: state.to,
    root: state.root,
    ...more,
  });
  return url.toString();
}
