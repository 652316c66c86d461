// SPDX-License-Identifier: Apache-2.0
// The flame graph: one canvas as high as its window, drawn again when something scrolls or
// zooms, so that depth and number of nodes do not matter. Pointer and keyboard go through a
// binary search in the rows of the tree.

const ROW = 18;
const CULL = 0.1; // px; narrower frames are not drawn, and the note says how much that is
const MIN_TEXT = 24; // px
const BELOW = 40; // px left for the note below the graph

function hash(text) {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return (h >>> 0) / 4294967296;
}

// Hue, spread of hue and saturation by kind; lightness comes from the theme, and a fourth number
// brings it that much nearer to the middle. Time off the CPU is cold; the page's style has the same
// colours for the legend.
const palette = {
  root: [40, 0, 8],
  label: [175, 14, 30],
  user: [24, 34, 78],
  kernel: [212, 22, 58],
  jit: [128, 28, 46],
  inline: [46, 16, 74],
  error: [285, 6, 22],
  unknown: [30, 6, 10],
  wait: [234, 10, 82, 6],
  ready: [188, 8, 56],
  wake: [317, 10, 46],
  pruned: [0, 0, 0],
};

export class Flame {
  constructor(parts, events) {
    this.scroller = parts.scroller;
    this.canvas = parts.canvas;
    this.spacer = parts.spacer;
    this.outline = parts.outline;
    this.context = this.canvas.getContext("2d");
    this.events = events; // hover(node, event), zoom(node), focus(node), drawn(culled)
    this.tree = null;
    this.zoomed = 0;
    this.focused = 0;
    this.matched = null;
    this.icicle = false;
    this.colors = new Map();
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => { this.colors.clear(); this.draw(); });
    this.scroller.addEventListener("scroll", () => { this.draw(); this.placeOutline(); });
    this.scroller.addEventListener("mousemove", (event) => this.hover(event));
    this.scroller.addEventListener("mouseleave", () => this.events.hover(null));
    this.scroller.addEventListener("click", (event) => this.click(event));
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(this.scroller.parentElement);
  }

  show(tree, zoomed, icicle) {
    const turned = !this.tree || this.icicle !== icicle;
    this.tree = tree;
    this.zoomed = zoomed;
    this.icicle = icicle;
    this.focused = zoomed;
    this.outline.hidden = true;
    this.colors.clear();
    this.resize();
    if (turned) this.toRoot();
  }

  zoom(node) {
    this.zoomed = node;
    this.focused = node;
    this.outline.hidden = true;
    this.draw();
    this.reveal(node);
  }

  mark(matched) {
    this.matched = matched;
    this.draw();
  }

  get height() {
    return this.tree ? this.tree.rows.length * ROW + 2 : 0;
  }

  toRoot() {
    this.scroller.scrollTop = this.icicle ? 0 : this.height;
    this.draw();
  }

  resize() {
    if (!this.tree) return;
    const width = this.scroller.clientWidth;
    // As much of the window as is left below what stands above the graph.
    const above = this.scroller.getBoundingClientRect().top + scrollY;
    const room = Math.max(300, Math.floor(innerHeight - above) - BELOW);
    const visible = Math.min(this.height, room);
    this.scroller.style.maxHeight = `${room + 2}px`;
    const scale = devicePixelRatio || 1;
    this.spacer.style.height = `${this.height}px`;
    this.canvas.width = Math.max(1, Math.round(width * scale));
    this.canvas.height = Math.max(1, Math.round(visible * scale));
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${visible}px`;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.width = width;
    this.visible = visible;
    this.draw();
    this.placeOutline();
  }

  top(depth) {
    return this.icicle ? depth * ROW : this.height - (depth + 1) * ROW - 1;
  }

  // Place of a node in the zoomed view, in px; ancestors of the zoomed one fill the width.
  span(node) {
    const tree = this.tree;
    if (tree.depth[node] <= tree.depth[this.zoomed]) return { left: 0, width: this.width };
    const scale = this.width / (tree.total[this.zoomed] || 1);
    return {
      left: (tree.x[node] - tree.x[this.zoomed]) * scale,
      width: tree.total[node] * scale,
    };
  }

  color(node) {
    const tree = this.tree;
    const kind = tree.kindOf(node);
    const key = `${kind}:${tree.name[node]}`;
    let color = this.colors.get(key);
    if (!color) {
      const [hue, spread, saturation, nearer = 0] = palette[kind] || palette.unknown;
      const h = hash(tree.label(node));
      const lightness = this.dark.matches ? 37 + 10 * h + nearer : 70 + 12 * h - nearer;
      const strength = this.dark.matches ? saturation * 0.75 : saturation;
      color = `hsl(${hue + spread * (h - 0.5)} ${strength}% ${lightness}%)`;
      this.colors.set(key, color);
    }
    return color;
  }

  draw() {
    if (!this.tree || !this.width) return;
    const context = this.context;
    const offset = this.scroller.scrollTop;
    const zoomDepth = this.tree.depth[this.zoomed];
    let culled = 0;
    context.clearRect(0, 0, this.width, this.visible);
    context.font = '12px ui-monospace, "DejaVu Sans Mono", Menlo, monospace';
    context.textBaseline = "middle";
    this.letter = context.measureText("m").width;
    const path = [0, ...this.tree.path(this.zoomed)];
    for (let depth = 0; depth < this.tree.rows.length; depth++) {
      const y = this.top(depth) - offset;
      const isShown = y + ROW > 0 && y < this.visible;
      if (depth <= zoomDepth) {
        if (isShown) this.box(path[depth], 0, y, this.width, depth < zoomDepth);
        continue;
      }
      culled += this.drawRow(depth, y, isShown);
    }
    this.events.drawn(culled, this.tree.total[this.zoomed]);
  }

  // Draws the part of a row inside the zoom; returns the value of outermost culled frames.
  drawRow(depth, y, isShown) {
    const tree = this.tree;
    const row = tree.rows[depth];
    const start = tree.x[this.zoomed];
    const end = start + tree.total[this.zoomed];
    const scale = this.width / (tree.total[this.zoomed] || 1);
    let culled = 0;
    for (let i = this.firstAt(row, start); i < row.length; i++) {
      const node = row[i];
      if (tree.x[node] >= end) break;
      const width = tree.total[node] * scale;
      if (width < CULL) {
        if (tree.total[tree.parent[node]] * scale >= CULL) culled += tree.total[node];
        continue;
      }
      if (isShown) this.box(node, (tree.x[node] - start) * scale, y, width, false);
    }
    return culled;
  }

  // Index of the first node of a row that starts at or behind a value.
  firstAt(row, value) {
    let low = 0;
    let high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tree.x[row[middle]] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  box(node, x, y, width, faded) {
    const context = this.context;
    const isMatch = this.matched && this.matched[node];
    const gap = width > 3 ? 1 : 0;
    context.globalAlpha = faded ? 0.5 : this.matched && !isMatch ? 0.65 : 1;
    context.fillStyle = isMatch ? (this.dark.matches ? "#b04fd8" : "#d07bf0") : this.color(node);
    context.fillRect(x, y + 1, Math.max(width - gap, 0.5), ROW - 1);
    if (width >= MIN_TEXT) {
      const room = Math.floor((width - 8) / this.letter);
      const text = this.tree.label(node);
      context.fillStyle = this.dark.matches ? "#f7f7f7" : "#17181a";
      context.fillText(text.length > room ? `${text.slice(0, Math.max(room - 1, 1))}…` : text,
        x + 4, y + ROW / 2 + 1);
    }
    context.globalAlpha = 1;
  }

  at(event) {
    if (!this.tree) return -1;
    const bounds = this.canvas.getBoundingClientRect();
    const x = event.clientX - bounds.left;
    const y = event.clientY - bounds.top + this.scroller.scrollTop;
    const depth = this.icicle ? Math.floor(y / ROW) : Math.floor((this.height - 1 - y) / ROW);
    if (depth < 0 || depth >= this.tree.rows.length || x < 0 || x >= this.width) return -1;
    const tree = this.tree;
    if (depth <= tree.depth[this.zoomed]) return [0, ...tree.path(this.zoomed)][depth];
    const value = tree.x[this.zoomed] + (x / this.width) * tree.total[this.zoomed];
    const row = tree.rows[depth];
    let i = this.firstAt(row, value);
    if (i === row.length || tree.x[row[i]] > value) i--;
    if (i < 0) return -1;
    const node = row[i];
    const isInside = value < tree.x[node] + tree.total[node] && tree.isBelow(node, this.zoomed);
    return isInside ? node : -1;
  }

  hover(event) {
    const node = this.at(event);
    this.scroller.style.cursor = node >= 0 ? "pointer" : "default";
    this.events.hover(node >= 0 ? node : null, event);
  }

  click(event) {
    const node = this.at(event);
    if (node >= 0) this.events.zoom(node);
  }

  focus(node) {
    this.focused = node;
    this.reveal(node);
    this.placeOutline();
    this.outline.hidden = false;
    this.events.focus(node);
  }

  reveal(node) {
    const y = this.top(this.tree.depth[node]);
    const first = this.scroller.scrollTop;
    if (y < first) this.scroller.scrollTop = y - ROW;
    else if (y + ROW > first + this.visible)
      this.scroller.scrollTop = y + 2 * ROW - this.visible;
  }

  placeOutline() {
    if (!this.tree) return;
    const { left, width } = this.span(this.focused);
    Object.assign(this.outline.style, {
      left: `${left}px`,
      top: `${this.top(this.tree.depth[this.focused])}px`,
      width: `${Math.max(width, 4)}px`,
      height: `${ROW + 1}px`,
    });
  }

  key(event) {
    if (!this.tree || event.altKey || event.ctrlKey || event.metaKey) return;
    const tree = this.tree;
    const node = this.focused;
    const inward = (tree.children[node] || [])[0];
    const outward = tree.parent[node];
    const siblings = outward >= 0 ? tree.children[outward] : [node];
    const place = siblings.indexOf(node);
    const moves = {
      ArrowUp: this.icicle ? outward : inward,
      ArrowDown: this.icicle ? inward : outward,
      ArrowLeft: siblings[place - 1],
      ArrowRight: siblings[place + 1],
    };
    if (event.key === "Enter") {
      this.events.zoom(node);
    } else if (event.key in moves) {
      const target = moves[event.key];
      if (target !== undefined && target >= 0) this.focus(target);
    } else {
      return;
    }
    event.preventDefault();
  }
}
