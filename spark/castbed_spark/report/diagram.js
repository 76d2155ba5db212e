// The space-time diagram: a line per node, time to the right, an arrow per copy of a frame, a mark per event.
// Only what is in the window is drawn. Drag or arrow keys move it, the wheel or + and - zoom, 0 shows everything.

const MARK = { submit: [6.5, "var(--s0)"], deliver: [4, "var(--s2)"], hold: [4, "var(--s4)"], view: [5, "var(--s3)"], crash: [6, "var(--bad)"] };
const OTHER = [3.5, "var(--s5)"];
const ELEMENTS_MAX = 6000;
const [LANE_MIN, LANE_MAX, LANES_HEIGHT, NAME_HEIGHT] = [6, 30, 900, 13];
const FEW = 12; // messages that the picture starts with

class SpaceTime {
  constructor(run) {
    this.run = run;
    const began = (one) => Math.min(...one.marks.map((mark) => mark[0]), ...one.hops.map((hop) => hop[0]), run.virtual_s);
    this.messages = run.diagram.messages.map((one) => [began(one), one]).sort(([a], [b]) => a - b).map(([, one]) => one);
    this.end = Math.max(1e-6, run.virtual_s);
    this.window = [0, this.firstFew() || this.end];
    this.chosen = new Set();
    this.witness = [];
    this.shown = new Set(run.nodes.map((_, at) => at));
    this.geometry = { left: 90, right: 16, width: 1100, top: 26 };
  }

  firstFew() {
    return Math.max(0, ...this.messages.slice(0, FEW).flatMap((one) => one.marks.map((mark) => mark[0]))) * 1.05;
  }

  element() {
    this.svg = make("svg", { tabindex: "0", role: "application", "aria-label": "Space-time diagram. Arrow keys move, plus and minus zoom, 0 shows everything.", onkeydown: (event) => this.key(event), onwheel: (event) => this.wheel(event), onpointerdown: (event) => this.drag(event) });
    this.about = make("p", { class: "about muted", "aria-live": "polite" }, "Click a mark, or choose a message, to see what happened to it.");
    this.draw();
    return make("div", {}, this.tools(), this.legend(), make("div", { class: "diagram-frame" }, this.svg), this.about,
      this.run.diagram.left_out ? make("p", { class: "muted" }, `${number(this.run.diagram.left_out)} more messages are in the tables, not in this picture.`) : null);
  }

  legend() {
    const entry = (name, fill) => make("li", {}, make("i", { class: "dot", style: `background:${fill}` }), name);
    return make("ul", { class: "legend" }, Object.entries(MARK).map(([kind, [, fill]]) => entry(kind, fill)), entry("other", OTHER[1]));
  }

  tools() {
    const names = this.messages.map((one) => one.label);
    this.picker = make("select", { "aria-label": "Message", onchange: (event) => this.choose(event.target.value === "" ? [] : [event.target.value]) },
      make("option", { value: "" }, "all messages"), names.map((name) => make("option", { value: name }, name)));
    const search = make("input", { type: "search", placeholder: "find a message", "aria-label": "Find a message", oninput: (event) => this.search(event.target.value) });
    const roles = [...new Set(this.run.nodes.map((node) => node.role))];
    const nodes = make("details", {}, make("summary", {}, "Nodes"),
      roles.length > 1 ? make("p", {}, roles.map((role) => make("button", { type: "button", onclick: () => this.toggleRole(role) }, role))) : null,
      make("p", {}, this.run.nodes.map((node, at) => make("label", {}, make("input", { type: "checkbox", checked: true, "data-node": at, onchange: (event) => this.toggle(at, event.target.checked) }), ` ${node.name} `))));
    this.nodeBoxes = nodes;
    const button = (text, label, act) => make("button", { type: "button", "aria-label": label, onclick: act }, text);
    return make("div", { class: "diagram-tools" }, search, this.picker,
      button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)), button("everything", "Show everything", () => this.showAll()), nodes);
  }

  choose(labels) {
    this.chosen = new Set(labels);
    this.witness = [];
    this.picker.value = labels.length === 1 ? labels[0] : "";
    const about = this.messages.filter((one) => this.chosen.has(one.label));
    this.frame(about.flatMap((one) => [...one.marks.map((mark) => mark[0]), ...one.hops.flatMap((hop) => [hop[0], hop[2]])]));
    this.about.textContent = about.length ? about.map((one) => `${one.label}: ${this.story(one)}`).join(" ") : "All messages.";
    this.draw();
  }

  // The messages that a witness is about, its own events ringed, in the time that they took.
  showWitness(witness) {
    this.choose(witness.messages);
    this.witness = witness.marks;
    this.frame(witness.marks.map((mark) => mark[0]));
    this.about.textContent = witness.text;
    this.draw();
  }

  frame(times) {
    if (times.length === 0) return;
    const low = times.reduce((least, time) => Math.min(least, time), Infinity), high = times.reduce((most, time) => Math.max(most, time), 0);
    const margin = Math.max((high - low) * 0.15, this.end * 1e-4);
    this.window = [Math.max(0, low - margin), high + margin];
  }

  story(one) {
    const delivered = one.marks.filter((mark) => mark[2] === "deliver").length;
    const held = one.marks.filter((mark) => mark[2] === "hold").length;
    return `group ${one.group}, ${number(one.size)} bytes, ${number(one.hops.length)} copies received, delivered ${delivered} times${held ? `, held back ${held} times` : ""}.`;
  }

  search(text) {
    const found = this.messages.filter((one) => one.label.toLowerCase().includes(text.trim().toLowerCase()));
    this.choose(text.trim() === "" ? [] : found.slice(0, 20).map((one) => one.label));
  }

  toggle(node, on) { if (on) this.shown.add(node); else this.shown.delete(node); this.draw(); }

  toggleRole(role) {
    const of = this.run.nodes.map((node, at) => [node, at]).filter(([node]) => node.role === role).map(([, at]) => at);
    const on = !of.every((at) => this.shown.has(at));
    for (const at of of) {
      if (on) this.shown.add(at); else this.shown.delete(at);
      this.nodeBoxes.querySelector(`[data-node="${at}"]`).checked = on;
    }
    this.draw();
  }

  showAll() { this.choose([]); this.window = [0, this.end]; this.draw(); }

  zoom(factor, around = (this.window[0] + this.window[1]) / 2) {
    const [low, high] = this.window;
    const span = Math.min(Math.max((high - low) * factor, this.end * 1e-7), this.end * 1.1);
    const share = (around - low) / (high - low || 1);
    this.move(around - span * share, span);
  }

  move(low, span = this.window[1] - this.window[0]) {
    const from = Math.min(Math.max(low, -0.05 * span), Math.max(0, this.end - 0.5 * span));
    this.window = [from, from + span];
    this.draw();
  }

  key(event) {
    const span = this.window[1] - this.window[0];
    const acts = { ArrowLeft: () => this.move(this.window[0] - span / 8), ArrowRight: () => this.move(this.window[0] + span / 8), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.showAll() };
    if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
  }

  timeAt(event) {
    const { left, right, width } = this.geometry;
    const box = this.svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width;
    return this.window[0] + ((x - left) / (width - left - right)) * (this.window[1] - this.window[0]);
  }

  wheel(event) { event.preventDefault(); this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(event)); }

  drag(event) {
    const start = this.timeAt(event);
    const moved = (later) => { const here = this.timeAt(later); this.move(this.window[0] + start - here); };
    const done = () => { removeEventListener("pointermove", moved); removeEventListener("pointerup", done); };
    addEventListener("pointermove", moved); addEventListener("pointerup", done);
  }

  draw() {
    const { left, right, width, top } = this.geometry;
    const lane = Math.min(LANE_MAX, Math.max(LANE_MIN, LANES_HEIGHT / Math.max(this.shown.size, 1)));
    const named = Math.ceil(NAME_HEIGHT / lane);
    const rows = new Map([...this.shown].sort((a, b) => a - b).map((node, at) => [node, top + at * lane + lane / 2]));
    const height = top + rows.size * lane + 28;
    const [low, high] = this.window;
    const px = (time) => left + ((time - low) / (high - low)) * (width - left - right);
    const inside = (time) => time >= low && time <= high;
    const id = `plot-${runs.indexOf(this.run)}`;
    const below = make("g"), above = make("g"), hops = make("g", { "clip-path": `url(#${id})` });
    const clip = make("clipPath", { id }, make("rect", { x: left, y: 0, width: width - left - right, height }));
    for (const [place, [node, y]] of [...rows].entries()) {
      below.append(make("line", { class: "lane", x1: left, x2: width - right, y1: y, y2: y }));
      if (place % named === 0) below.append(make("text", { class: "lane-name", x: left - 8, y: y + 4, "text-anchor": "end" }, this.run.nodes[node].name));
    }
    for (const at of ticks(Math.max(low, 0), high, 8)) below.append(make("line", { class: "gridline", x1: px(at), x2: px(at), y1: top, y2: height - 24 }), make("text", { x: px(at), y: height - 8, "text-anchor": "middle" }, `${number(at, 6)} s`));
    let left_over = ELEMENTS_MAX;
    const some = this.chosen.size > 0;
    for (const one of this.messages) {
      const lit = this.chosen.has(one.label);
      if ((some && !lit) || left_over <= 0) continue;
      for (const [sent, from, got, to, kind] of one.hops) {
        if (got < low || sent > high || !rows.has(from) || !rows.has(to) || left_over-- <= 0) continue;
        hops.append(make("line", { class: lit ? "hop lit" : "hop", x1: px(sent), y1: rows.get(from), x2: px(got), y2: rows.get(to), ...tipped(`${kind}: ${this.run.nodes[from].name} to ${this.run.nodes[to].name}, ${number((got - sent) * 1000)} ms`) }));
      }
      for (const mark of one.marks) if (rows.has(mark[1]) && inside(mark[0]) && left_over-- > 0) above.append(this.mark(mark, px, rows, lit, one));
    }
    for (const mark of this.run.diagram.marks) if (rows.has(mark[1]) && inside(mark[0]) && left_over-- > 0) above.append(this.mark(mark, px, rows, false, null));
    for (const mark of this.witness) if (rows.has(mark[1]) && inside(mark[0])) above.append(this.mark(mark, px, rows, true, null), make("circle", { class: "ring", cx: px(mark[0]), cy: rows.get(mark[1]), r: 9 }));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(clip, below, hops, above);
  }

  mark([time, node, kind, text], px, rows, lit, message) {
    const [size, fill] = MARK[kind] ?? OTHER;
    const words = `${number(time, 7)} s, ${this.run.nodes[node].name}: ${kind}${text ? ` ${text}` : ""}`;
    const tell = () => { if (message) this.choose([message.label]); this.about.textContent = `${words}. ${message ? `${message.label}: ${this.story(message)}` : ""}`; };
    return make("circle", { class: lit ? "mark lit" : "mark", cx: px(time), cy: rows.get(node), r: size, fill, onpointerdown: (event) => event.stopPropagation(), onclick: tell, ...tipped(words) });
  }
}
