"use strict";
// The flame graph's behaviour: layout for the window's width, zoom, search, tooltip, keys.
// Every frame is a <g> with data-f="start total self depth" in the profile's unit and a
// <title> of three lines: name, what it is, value. Frames stand in drawing order, a parent
// before its children, so a subtree is a range of indexes.
(function () {
	const NS = "http://www.w3.org/2000/svg";
	const PAD = 10, ROW = 18, TEXT_PAD = 3, MIN_PX = 0.1, MIN_CHARS = 3, MIN_PAGE = 720;
	const TIP_LINES = 8;

	const svg = document.currentScript ? document.currentScript.closest("svg")
					   : document.documentElement;
	const unit = svg.dataset.unit, periodNs = Number(svg.dataset.period);
	const top = Number(svg.dataset.top), rows = Number(svg.dataset.rows);
	const part = (name) => svg.querySelector("." + name);
	const bar = part("bar"), input = part("search"), matched = part("matched");
	const state = part("state"), reset = part("reset"), flip = part("flip");
	let icicle = svg.dataset.icicle === "1";
	let width = Number(svg.dataset.width), charPx = 7.3;
	let pattern = null, zoom, focused = null;

	const frames = Array.from(svg.querySelectorAll(".frames > g"), (g, index) => {
		const [start, total, self, depth] = g.dataset.f.split(" ").map(Number);
		const title = g.querySelector("title");
		const [name, what] = title.textContent.split("\n");
		title.remove(); // our tooltip says more than the browser's would
		return { g, index, start, total, self, depth, name, what, end: index + 1, parent: null,
			 rect: g.querySelector("rect"), text: g.querySelector("text") };
	});
	if (frames.length === 0)
		return;
	const path = [];
	for (const frame of frames) {
		path.length = frame.depth;
		frame.parent = path[frame.depth - 1] || null;
		for (const ancestor of path)
			ancestor.end = frame.index + 1;
		path.push(frame);
	}
	const root = frames[0];
	zoom = root;

	// As the text renderers have it: 0 and 100 stand only for exactly that.
	function percent(value, whole) {
		const hundredths = whole ? Math.round(value / whole * 10000) : 0;
		if (value > 0 && hundredths === 0)
			return "<0.01 %";
		return ((value < whole ? Math.min(hundredths, 9999) : hundredths) / 100).toFixed(2) + " %";
	}
	function count(value) {
		return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
	}
	function duration(ns) {
		for (const [size, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
			const v = ns / size;
			if (v >= 999.5)
				return count(v) + " " + name;
			if (v >= 0.9995)
				return v.toFixed(v < 9.995 ? 2 : v < 99.95 ? 1 : 0) + " " + name;
		}
		return count(ns) + " ns";
	}
	function amount(value) {
		if (unit === "ns")
			return duration(value);
		const text = count(value) + (value === 1 ? " sample" : " samples");
		return periodNs ? text + " (" + duration(value * periodNs) + ")" : text;
	}

	// East Asian scripts and pictographs are drawn two columns wide.
	const wide = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
	const cells = (ch) => wide.test(ch) ? 2 : 1;
	function fit(name, room) {
		const chars = Array.from(name);
		let used = 0, kept = 0;
		const all = chars.reduce((sum, ch) => sum + cells(ch), 0);
		if (room < MIN_CHARS)
			return "";
		if (all <= room)
			return name;
		while (used + cells(chars[kept]) <= room - 2)
			used += cells(chars[kept++]);
		return chars.slice(0, kept).join("") + "..";
	}
	const rowY = (depth) => top + (icicle ? depth : rows - 1 - depth) * ROW;

	function isAncestor(frame) {
		return frame.index < zoom.index && frame.end > zoom.index;
	}
	function place(frame) {
		const inner = width - 2 * PAD, scale = inner / zoom.total;
		const ancestor = isAncestor(frame);
		const inside = frame.index >= zoom.index && frame.index < zoom.end;
		const x = ancestor ? PAD : PAD + (frame.start - zoom.start) * scale;
		const w = ancestor ? inner : frame.total * scale;
		const shown = ancestor || (inside && w >= MIN_PX);
		frame.g.style.display = shown ? "" : "none";
		if (!shown)
			return;
		frame.g.classList.toggle("faded", ancestor);
		frame.rect.setAttribute("x", x.toFixed(2));
		frame.rect.setAttribute("y", rowY(frame.depth));
		frame.rect.setAttribute("width", Math.max(w - (w > 2 ? 0.5 : 0), MIN_PX).toFixed(2));
		const label = fit(frame.name, Math.floor((w - 2 * TEXT_PAD) / charPx));
		if (!frame.text && label) {
			frame.text = document.createElementNS(NS, "text");
			frame.g.appendChild(frame.text);
		}
		if (frame.text) {
			frame.text.textContent = label;
			frame.text.setAttribute("x", (x + TEXT_PAD).toFixed(2));
			frame.text.setAttribute("y", rowY(frame.depth) + 13);
		}
	}
	function measure() {
		const probe = document.createElementNS(NS, "text");
		probe.textContent = "0".repeat(50);
		part("frames").appendChild(probe);
		charPx = probe.getComputedTextLength() / 50 || charPx;
		probe.remove();
	}
	function layout() {
		for (const frame of frames)
			place(frame);
		for (const text of svg.querySelectorAll(".title, .subtitle"))
			text.setAttribute("x", width / 2);
		svg.querySelector(".tools").setAttribute("width", width - 2 * PAD);
		describe();
	}
	function resize() {
		const whole = svg === document.documentElement;
		const available = whole ? document.documentElement.clientWidth || window.innerWidth
					: svg.parentNode.clientWidth;
		const height = Number(svg.dataset.height);
		width = Math.max(available || width, MIN_PAGE);
		svg.setAttribute("viewBox", "0 0 " + width + " " + height);
		svg.setAttribute("width", width);
		svg.setAttribute("height", height);
		layout();
	}

	// Outermost matches only, within what is shown: nothing is counted twice or unseen.
	function matchedShare() {
		let sum = 0, behind = 0;
		for (const frame of frames) {
			if (!frame.matches)
				continue;
			if (isAncestor(frame))
				return zoom.total;
			if (frame.index < zoom.index || frame.index >= zoom.end || frame.index < behind)
				continue;
			sum += frame.total;
			behind = frame.end;
		}
		return sum;
	}
	function describe() {
		reset.disabled = zoom === root;
		state.textContent = zoom === root ? "" :
			"Zoomed: " + zoom.name + ", " + amount(zoom.total) + ", " +
			percent(zoom.total, root.total) + " of total";
		state.title = state.textContent;
		matched.textContent = pattern ?
			"Matched: " + percent(matchedShare(), zoom.total) +
			(zoom === root ? "" : " of zoom") : "";
	}
	function search() {
		const text = input.value, known = new Map();
		pattern = null;
		input.classList.remove("bad");
		input.title = "";
		if (text !== "") {
			try {
				pattern = new RegExp(text, /[A-Z]/.test(text) ? "" : "i");
			} catch (error) {
				input.classList.add("bad");
				input.title = error.message;
			}
		}
		for (const frame of frames) {
			if (!known.has(frame.name))
				known.set(frame.name, pattern !== null && pattern.test(frame.name));
			frame.matches = known.get(frame.name);
			frame.g.classList.toggle("match", frame.matches);
		}
		describe();
		remember();
	}
	function zoomTo(frame) {
		zoom = frame;
		hideTip();
		layout();
		remember();
	}

	// The view is kept in the address, so that it can be shared and survives a reload.
	function remember() {
		const view = new URLSearchParams();
		if (zoom !== root)
			view.set("frame", zoom.index);
		if (input.value !== "")
			view.set("search", input.value);
		if (icicle !== (svg.dataset.icicle === "1"))
			view.set("flip", "1");
		try {
			history.replaceState(null, "", "#" + view);
		} catch (error) {
			// Some embeddings forbid it; the view still works.
		}
	}
	function recall() {
		const view = new URLSearchParams(location.hash.slice(1));
		zoom = frames[Number(view.get("frame"))] || root;
		icicle = (svg.dataset.icicle === "1") !== (view.get("flip") === "1");
		input.value = view.get("search") || "";
	}

	const tip = part("tip");
	function tipLines(frame) {
		const lines = [], chars = Array.from(frame.name);
		const room = Math.max(20, Math.floor((width - 80) / charPx));
		for (let i = 0; i < chars.length && lines.length < TIP_LINES; i += room)
			lines.push([chars.slice(i, i + room).join(""), "name"]);
		if (chars.length > room * TIP_LINES)
			lines.push(["… (" + chars.length + " characters)", "note"]);
		if (frame.what)
			lines.push([frame.what, "note"]);
		lines.push(["Total " + amount(frame.total) + ", " + percent(frame.total, root.total) +
			    (zoom === root ? "" : " of all, " + percent(Math.min(frame.total, zoom.total),
			     zoom.total) + " of the zoomed frame"), ""]);
		lines.push(["Self " + amount(frame.self) + ", " + percent(frame.self, root.total), ""]);
		return lines;
	}
	function showTip(frame, x, y) {
		tip.textContent = "";
		const box = document.createElementNS(NS, "rect");
		tip.appendChild(box);
		tip.style.display = "";
		let widest = 0, height = 6;
		for (const [line, style] of tipLines(frame)) {
			const text = document.createElementNS(NS, "text");
			text.textContent = line;
			if (style)
				text.setAttribute("class", style);
			text.setAttribute("x", 8);
			text.setAttribute("y", height + 12);
			tip.appendChild(text);
			widest = Math.max(widest, text.getComputedTextLength());
			height += 17;
		}
		box.setAttribute("width", widest + 16);
		box.setAttribute("height", height + 4);
		box.setAttribute("rx", 4);
		const area = svg.getBoundingClientRect();
		const left = Math.max(2, Math.min(x + 14, width - widest - 20));
		const below = y + 20 + height + area.top < window.innerHeight;
		tip.setAttribute("transform", "translate(" + left + "," +
				 Math.max(2, below ? y + 16 : y - height - 14) + ")");
	}
	function hideTip() {
		tip.style.display = "none";
	}
	function frameOf(target) {
		const g = target.closest ? target.closest(".frames > g") : null;
		return g ? frames[Number(g.dataset.i)] : null;
	}

	function focus(frame) {
		if (!frame)
			return;
		if (focused)
			focused.g.classList.remove("focus");
		focused = frame;
		frame.g.classList.add("focus");
		frame.g.setAttribute("tabindex", "0");
		frame.g.setAttribute("role", "button");
		frame.g.setAttribute("aria-label", tipLines(frame).map((line) => line[0]).join(", "));
		frame.g.focus({ preventScroll: true });
		frame.g.scrollIntoView({ block: "nearest" });
		showTip(frame, Number(frame.rect.getAttribute("x")), rowY(frame.depth));
	}
	const isShown = (frame) => frame && frame.g.style.display !== "none";
	function neighbour(frame, step) {
		const same = frames.filter((f) => f.depth === frame.depth && isShown(f));
		return same[same.indexOf(frame) + step];
	}
	function firstChild(frame) {
		return frames.slice(frame.index + 1, frame.end)
			.find((f) => f.depth === frame.depth + 1 && isShown(f));
	}
	function leave() {
		if (focused)
			focused.g.classList.remove("focus");
		focused = null;
		hideTip();
	}

	const keys = {
		Escape() {
			leave();
			if (zoom !== root)
				zoomTo(root);
			else if (input.value !== "") {
				input.value = "";
				search();
			}
		},
		Enter() { if (focused) zoomTo(focused); },
		ArrowUp() { focus(focused ? (icicle ? focused.parent : firstChild(focused)) : zoom); },
		ArrowDown() { focus(focused ? (icicle ? firstChild(focused) : focused.parent) : zoom); },
		ArrowLeft() { focus(focused ? neighbour(focused, -1) : zoom); },
		ArrowRight() { focus(focused ? neighbour(focused, 1) : zoom); },
		i() { flip.click(); },
		"/"() { input.focus(); },
	};
	window.addEventListener("keydown", (event) => {
		if ((event.ctrlKey || event.metaKey) && event.key === "f") {
			event.preventDefault();
			input.focus();
			input.select();
			return;
		}
		if (event.target === input) {
			if (event.key === "Escape") {
				input.value = "";
				search();
				input.blur();
			}
			return;
		}
		const onButton = event.target.tagName === "button";
		if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key] ||
		    (onButton && event.key === "Enter"))
			return;
		event.preventDefault();
		keys[event.key]();
	});
	frames.forEach((frame) => { frame.g.dataset.i = frame.index; });
	svg.addEventListener("click", (event) => {
		const frame = frameOf(event.target);
		if (frame)
			zoomTo(frame);
	});
	svg.addEventListener("mousemove", (event) => {
		const frame = frameOf(event.target);
		const area = svg.getBoundingClientRect();
		if (frame)
			showTip(frame, event.clientX - area.left, event.clientY - area.top);
		else if (!focused)
			hideTip();
	});
	svg.addEventListener("mouseleave", hideTip);
	input.addEventListener("input", search);
	reset.addEventListener("click", () => zoomTo(root));
	flip.addEventListener("click", () => {
		icicle = !icicle;
		layout();
		remember();
	});
	window.addEventListener("resize", resize);
	window.addEventListener("hashchange", () => { recall(); layout(); search(); });

	svg.classList.add("js");
	measure();
	recall();
	resize();
	search();
	// A graph taller than the window opens at its base, where reading starts.
	if (!icicle && svg.getBoundingClientRect().height > window.innerHeight)
		window.scrollTo(0, svg.getBoundingClientRect().height);
})();
