// SPDX-License-Identifier: Apache-2.0
// Functions with self and total, as the server counted them on the full tree: recursion once.

import { count, element, percent, shortAmount } from "./format.js";

const SHOWN = 300;
const columns = [
  ["name", "Function"],
  ["self", "Self"],
  ["total", "Total"],
];

export class Table {
  constructor(container, events) {
    this.container = container;
    this.events = events; // pick(name), sort(column)
    this.rows = [];
  }

  show(view, total, sort) {
    const names = view.tree.names;
    this.view = view;
    this.total = total;
    this.sort = sort;
    this.all = view.functions.count;
    this.rows = view.functions.rows.map(([name, module, kind, self, sum]) => ({
      name: names[name],
      module: names[module],
      self,
      total: sum,
    }));
    this.draw();
  }

  clear() {
    this.container.replaceChildren();
  }

  draw() {
    const order = {
      name: (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
      self: (a, b) => b.self - a.self || b.total - a.total,
      total: (a, b) => b.total - a.total || b.self - a.self,
    };
    const rows = [...this.rows].sort(order[this.sort] || order.total);
    const head = columns.map(([key, text]) =>
      element("th", { "aria-sort": key === this.sort ? (key === "name" ? "ascending" : "descending") : "none" },
        element("button", { type: "button", onclick: () => this.events.sort(key) },
          key === this.sort ? `${text} ${key === "name" ? "▴" : "▾"}` : text)));
    const body = rows.slice(0, SHOWN).map((row) => this.row(row));
    const parts = [
      element("div", { class: "rows" },
        element("table", {}, element("thead", {}, element("tr", {}, ...head)),
          element("tbody", {}, ...body))),
    ];
    if (this.all > body.length)
      parts.push(element("div", { class: "more" },
        `${count(this.all - body.length)} more functions; exports have all of them`));
    this.container.replaceChildren(...parts);
  }

  row(row) {
    const pick = () => this.events.pick(row.name);
    return element("tr", {
      tabindex: "0",
      title: row.module ? `${row.name}\n${row.module}` : row.name,
      onclick: pick,
      onkeydown: (event) => { if (event.key === "Enter") pick(); },
    },
    element("td", {}, row.name),
    this.cell(row.self),
    this.cell(row.total));
  }

  cell(value) {
    return element("td", {}, `${percent(value, this.total)} `,
      element("small", {}, value ? shortAmount(value, this.view) : ""));
  }
}
