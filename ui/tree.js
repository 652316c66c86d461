// SPDX-License-Identifier: Apache-2.0
// The tree as the server sends it, in columns, plus what drawing needs: order, depth, place.
// No recursion: stacks may be very deep.

export class Tree {
  constructor(json, order) {
    const nodes = json.nodes;
    this.names = json.names;
    this.kinds = json.kinds;
    this.length = nodes.parent.length;
    this.parent = Int32Array.from(nodes.parent);
    this.name = Uint32Array.from(nodes.name);
    this.module = Uint32Array.from(nodes.module);
    this.kind = Uint8Array.from(nodes.kind);
    this.self = Float64Array.from(nodes.self);
    this.total = Float64Array.from(nodes.total);
    this.cut = Uint32Array.from(nodes.cut);
    this.allNodes = json.all_nodes;
    this.cutNodes = json.cut_nodes;
    this.cutValue = json.cut_value;
    this.pruned = this.kinds.indexOf("pruned");
    this.off = this.sumOff();
    this.layOut(order);
  }

  // By node, how much of it is off the CPU, as far as the frames that were sent say.
  sumOff() {
    const off = new Float64Array(this.length);
    for (let i = this.length - 1; i >= 0; i--) {
      const kind = this.kindOf(i);
      if (kind === "wait" || kind === "ready") off[i] = this.total[i];
      if (i > 0) off[this.parent[i]] += off[i];
    }
    return off;
  }

  label(node) {
    if (node === 0) return "all";
    if (this.kind[node] === this.pruned) return `(${this.cut[node]} smaller frames)`;
    return this.names[this.name[node]] || "(no name)";
  }

  moduleOf(node) {
    return this.names[this.module[node]];
  }

  kindOf(node) {
    return this.kinds[this.kind[node]];
  }

  // x: start in values; rows: the nodes of each depth from left to right.
  layOut(order) {
    const n = this.length;
    const rank = this.rankNames();
    const children = Array.from({ length: n }, () => null);
    for (let i = 1; i < n; i++) (children[this.parent[i]] ||= []).push(i);
    const byName = (a, b) =>
      (this.kind[a] === this.pruned) - (this.kind[b] === this.pruned) ||
      rank[this.name[a]] - rank[this.name[b]] || a - b;
    const bySize = (a, b) => this.total[b] - this.total[a] || byName(a, b);
    this.children = children;
    this.depth = new Uint32Array(n);
    this.x = new Float64Array(n);
    this.rows = [[0]];
    for (let depth = 0; depth < this.rows.length; depth++) {
      const next = [];
      for (const node of this.rows[depth]) {
        if (!children[node]) continue;
        children[node].sort(order === "size" ? bySize : byName);
        let x = this.x[node];
        for (const child of children[node]) {
          this.depth[child] = depth + 1;
          this.x[child] = x;
          x += this.total[child];
          next.push(child);
        }
      }
      if (next.length) this.rows.push(next);
    }
  }

  rankNames() {
    const ids = Array.from(this.names.keys());
    ids.sort((a, b) => (this.names[a] < this.names[b] ? -1 : this.names[a] > this.names[b] ? 1 : 0));
    const rank = new Uint32Array(ids.length);
    ids.forEach((id, i) => { rank[id] = i; });
    return rank;
  }

  path(node) {
    const path = [];
    for (let at = node; at > 0; at = this.parent[at]) path.push(at);
    return path.reverse();
  }

  // The node at a path of labels, or the deepest that is still there.
  find(labels) {
    let node = 0;
    for (const label of labels) {
      const found = (this.children[node] || []).find((child) => this.label(child) === label);
      if (found === undefined) return { node, complete: false };
      node = found;
    }
    return { node, complete: true };
  }

  isBelow(node, ancestor) {
    return this.depth[node] >= this.depth[ancestor] &&
      this.x[node] >= this.x[ancestor] &&
      this.x[node] + this.total[node] <= this.x[ancestor] + this.total[ancestor] + 1e-9;
  }

  // Which names match, tried once per name; labels of groups count as well.
  match(expression) {
    const hits = new Uint8Array(this.names.length);
    for (let i = 0; i < hits.length; i++) hits[i] = expression.test(this.names[i]) ? 1 : 0;
    const matched = new Uint8Array(this.length);
    for (let i = 1; i < this.length; i++)
      matched[i] = this.kind[i] === this.pruned ? 0 : hits[this.name[i]];
    return matched;
  }

  // Outermost matches below a node, in drawing order, and the sum of their totals.
  outermost(matched, top) {
    const list = [];
    let sum = 0;
    const stack = [top];
    while (stack.length) {
      const node = stack.pop();
      if (matched[node]) {
        list.push(node);
        sum += this.total[node];
        continue;
      }
      const children = this.children[node] || [];
      for (let i = children.length - 1; i >= 0; i--) stack.push(children[i]);
    }
    return { list, sum };
  }
}
