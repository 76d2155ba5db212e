"use strict";
// Small parts that draw: elements, numbers for people, and charts in SVG with a table of the same numbers below.

const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, ...children) {
  const inSvg = ["svg", "g", "line", "path", "rect", "circle", "text", "polyline", "clipPath"].includes(tag);
  const element = inSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
  return element;
}

function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en-US").replaceAll(",", " ");
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  return Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 6 }).replaceAll(",", " ");
}

const colour = (at) => `var(--s${at % 12})`;

const tip = {
  show(event, text) {
    const box = document.getElementById("tip");
    box.textContent = text;
    box.hidden = false;
    box.style.left = `${Math.min(event.clientX + 12, innerWidth - 330)}px`;
    box.style.top = `${event.clientY + 14}px`;
  },
  hide() { document.getElementById("tip").hidden = true; },
};
const tipped = (text) => ({ onmousemove: (event) => tip.show(event, text), onmouseleave: tip.hide });

function ticks(low, high, wanted = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

// 1, 2 and 5 times the powers of ten, or these alone where there are many.
function logarithmicTicks(low, high) {
  const found = [];
  const many = Math.log10(high / low) > 2.5;
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) for (const factor of many ? [1] : [1, 2, 5]) found.push(Number((factor * 10 ** power).toPrecision(3)));
  return found.filter((at) => at >= low * 0.999 && at <= high * 1.001);
}

function table(head, rows) {
  const numeric = head.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === "number" || row[column] === null));
  const cell = (tag, value, column) => make(tag, { class: numeric[column] ? "number" : null }, value instanceof Node ? value : typeof value === "number" || value === null ? number(value) : value);
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": head.join(", ") },
    make("table", {},
      make("thead", {}, make("tr", {}, head.map((title, column) => { const th = cell("th", title, column); th.scope = "col"; return th; }))),
      make("tbody", {}, rows.map((row) => make("tr", {}, row.map((value, column) => cell("td", value, column)))))));
}

// `legend` has the names that colours stand for, in their order; what is not in the picture is undefined.
function figure(caption, note, drawing, numbers, legend = []) {
  return make("figure", {},
    make("figcaption", {}, caption),
    note ? make("p", { class: "note" }, note) : null,
    legend.length ? make("ul", { class: "legend" }, legend.map((name, at) => name && make("li", {}, make("i", { style: `background:${colour(at)}` }), name))) : null,
    drawing,
    numbers ? make("details", {}, make("summary", {}, "The numbers"), numbers) : null);
}

const BOX = { width: 480, height: 230, left: 58, right: 12, top: 12, bottom: 40 };

function axes(x, y, label) {
  const { width, height, left, right, top, bottom } = BOX;
  const along = x.logarithmic ? (value) => Math.log(Math.max(value, x.low) / x.low) / Math.log(x.high / x.low) : (value) => (value - x.low) / (x.high - x.low || 1);
  const px = (value) => left + along(value) * (width - left - right);
  const py = (value) => height - bottom - ((value - y.low) / (y.high - y.low || 1)) * (height - top - bottom);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const at of ticks(y.low, y.high)) {
    svg.append(make("line", { class: "gridline", x1: left, x2: width - right, y1: py(at), y2: py(at) }),
      make("text", { x: left - 6, y: py(at) + 4, "text-anchor": "end" }, number(at)));
  }
  for (const at of x.logarithmic ? logarithmicTicks(x.low, x.high) : ticks(x.low, x.high)) svg.append(make("text", { x: px(at), y: height - bottom + 16, "text-anchor": "middle" }, number(at)));
  svg.append(make("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
    make("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, x.label),
    make("text", { x: 12, y: (top + height - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(top + height - bottom) / 2})` }, y.label));
  return { svg, px, py };
}

// Lines: series are {name, at, points: [[x, y], ...], step}; `at` chooses the colour; all share the axes.
function lines(series, x, y, label) {
  const points = series.flatMap((one) => one.points);
  const high = (at) => points.reduce((most, point) => Math.max(most, point[at]), 0);
  const drawn = axes({ low: x.low ?? 0, high: x.high ?? (high(0) || 1), label: x.label, logarithmic: x.logarithmic }, { low: 0, high: (high(1) || 1) * 1.05, label: y.label }, label);
  for (const one of series) {
    let path = "";
    one.points.forEach(([px, py], place) => {
      const [sx, sy] = [drawn.px(px).toFixed(1), drawn.py(py).toFixed(1)];
      path += place === 0 ? `M${sx} ${sy}` : one.step ? `H${sx}V${sy}` : `L${sx} ${sy}`;
    });
    if (one.filled) drawn.svg.append(make("path", { d: path, fill: colour(one.at), opacity: 0.12 }));
    drawn.svg.append(make("path", { d: path, fill: "none", stroke: colour(one.at), "stroke-width": 1.7, ...tipped(one.name) }));
  }
  return drawn.svg;
}

// A histogram of each series as a stepped outline, as shares, so that runs of different size compare.
function distributions(series, label) {
  const outlines = series.map(({ name, at: colourAt, of }) => {
    const total = of.count || 1;
    const points = of.counts.flatMap((count, at) => [[of.edges[at], (100 * count) / total], [of.edges[at + 1], (100 * count) / total]]);
    return { name, at: colourAt, filled: true, points: [[of.edges[0], 0], ...points, [of.edges.at(-1), 0]] };
  });
  const logarithmic = series.some(({ of }) => of.logarithmic);
  const low = Math.min(...series.map(({ of }) => of.edges.find((edge) => !logarithmic || edge > 0)));
  const high = Math.max(...series.map(({ of }) => of.edges.at(-1)));
  return lines(outlines, { label: logarithmic ? "ms, logarithmic; the first bar holds all shorter ones, too" : "ms", low: logarithmic || low > 0.3 * high ? low : Math.min(low, 0), high, logarithmic }, { label: "share, %" }, label);
}

// Horizontal bars: rows are {name, parts: [value, ...]}; parts are stacked in the order of the legend.
function bars(rows, legend, unit, label) {
  const rowHeight = 24, left = 132, right = 74, width = BOX.width, height = rows.length * rowHeight + 8;
  const most = Math.max(1, ...rows.map((row) => row.parts.reduce((sum, part) => sum + part, 0)));
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  rows.forEach((row, at) => {
    let from = left;
    svg.append(make("text", { x: left - 8, y: at * rowHeight + 19, "text-anchor": "end", class: "lane-name" }, row.name));
    row.parts.forEach((part, place) => {
      const size = (part / most) * (width - left - right);
      svg.append(make("rect", { x: from, y: at * rowHeight + 6, width: Math.max(size, part > 0 ? 0.5 : 0), height: rowHeight - 8, fill: colour(place), ...tipped(`${row.name}, ${legend[place]}: ${number(part)} ${unit}`) }));
      from += size;
    });
    svg.append(make("text", { x: from + 6, y: at * rowHeight + 19 }, number(row.parts.reduce((sum, part) => sum + part, 0))));
  });
  return svg;
}
