// SPDX-License-Identifier: Apache-2.0
// Runs behind the flame graph's own script in a copy of the file: does what a person does
// and leaves what is then seen as JSON in the document element's data-result.
"use strict";
(function () {
	const svg = document.documentElement, seen = {};
	const all = () => Array.from(svg.querySelectorAll(".frames > g"));
	const shown = () => all().filter((g) => g.style.display !== "none");
	const label = (g) => g.querySelector("text") ? g.querySelector("text").textContent : "";
	const frame = (name) => all().find((g) => label(g) === name);
	const text = (name) => svg.querySelector("." + name).textContent;
	const width = (g) => Number(g.querySelector("rect").getAttribute("width"));
	const input = svg.querySelector(".search");
	const key = (name, more) => (document.activeElement || svg).dispatchEvent(
		new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more }));
	const click = (target) => target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
	const hover = (target) => target.dispatchEvent(
		new MouseEvent("mousemove", { bubbles: true, clientX: 200, clientY: 200 }));
	const find = (pattern) => {
		input.value = pattern;
		input.dispatchEvent(new Event("input"));
		return { matched: text("matched"), bad: input.classList.contains("bad"),
			 lit: all().filter((g) => g.classList.contains("match")).length };
	};
	const tip = () => svg.querySelector(".tip").style.display === "none" ? null :
		Array.from(svg.querySelectorAll(".tip text"), (line) => line.textContent);
	const view = () => ({ labels: shown().map(label), widths: shown().map(width),
			      faded: all().filter((g) => g.classList.contains("faded")).map(label),
			      state: text("state"), hash: location.hash });

	seen.start = view();
	seen.width = Number(svg.getAttribute("width"));
	seen.inner = window.innerWidth;
	seen.restored = { search: input.value, matched: text("matched") };
	seen.searches = {};
	for (const pattern of ["parse|index", "query", "QUERY", "Query", "loop", "nothing", "(", "."])
		seen.searches[pattern] = find(pattern);
	find("");

	hover(frame("do_query").querySelector("rect"));
	seen.tip = tip();
	click(frame("do_query").querySelector("rect"));
	seen.zoomed = view();
	seen.tipAfterZoom = tip();
	seen.zoomedSearches = {};
	for (const pattern of ["parse_row", "loop", "leaf_io"])
		seen.zoomedSearches[pattern] = find(pattern);
	find("");
	hover(frame("parse_row").querySelector("rect"));
	seen.zoomedTip = tip();
	click(frame("server_loop").querySelector("rect"));
	seen.ancestor = view();
	key("Escape");
	seen.escaped = view();

	key("f", { ctrlKey: true });
	seen.searchFocused = document.activeElement === input;
	input.value = "parse";
	input.dispatchEvent(new Event("input"));
	key("Escape");
	seen.searchCleared = input.value === "" && document.activeElement !== input;

	key("ArrowUp");
	seen.focusRoot = tip();
	key("ArrowUp");
	key("ArrowUp");
	key("ArrowUp");
	key("ArrowRight");
	seen.focusMoved = tip();
	seen.ariaLabel = document.activeElement.getAttribute("aria-label");
	key("Enter");
	seen.entered = view();
	click(svg.querySelector(".reset"));
	seen.reset = view();

	const y = (g) => Number(g.querySelector("rect").getAttribute("y"));
	seen.rootBelow = y(frame("all")) > y(frame("server_loop"));
	key("i");
	seen.rootAbove = y(frame("all")) < y(frame("server_loop"));
	seen.scripts = document.querySelectorAll("script").length;
	seen.intruder = "intruder" in window;
	svg.dataset.result = JSON.stringify(seen);
})();
