// The page: verdicts first, then what the runs did, each part only where there is something to show.

const report = JSON.parse(document.getElementById("document").textContent);
const runs = report.runs;
const names = runs.map((run) => run.name);
const several = runs.length > 1;

function theme(next) {
  document.documentElement.dataset.theme = next;
}
theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.getElementById("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

document.getElementById("title").textContent = report.title;
document.getElementById("subtitle").textContent = several ? `${runs.length} runs side by side` : describe(runs[0]);
document.getElementById("footer").textContent = `Made by ${report.made_by} on ${report.made_at}, from the captures alone.`;

function describe(run) {
  return `${run.protocol} (${run.variant}) on ${run.transport}, ${run.nodes.length} nodes, seed ${run.seed}, ${number(run.virtual_s)} s`;
}

const content = document.getElementById("content");
const contents = document.getElementById("contents");

function section(id, title, ...parts) {
  const shown = parts.flat().filter((part) => part);
  if (shown.length === 0) return;
  content.append(make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title), shown));
  contents.append(make("a", { href: `#${id}` }, title));
}

function grid(parts) {
  const there = parts.filter((part) => part);
  return there.length ? make("div", { class: "grid" }, there) : null;
}

function verdict(run) {
  const broken = run.properties.filter((property) => !property.holds);
  const total = run.properties.length;
  const words = total === 0 ? "No property was judged." : broken.length === 0 ? `All ${total} guaranteed properties hold.` : `${broken.length} of ${total} guaranteed properties are violated: ${broken.map((property) => property.name).join(", ")}.`;
  return make("p", { class: `verdict ${broken.length ? "bad" : "good"}` }, `${several ? `${run.name}: ` : ""}${words}`);
}

const COUNTS = [["submitted", "submitted"], ["delivered", "delivered"], ["expected", "expected"], ["duplicates", "duplicates"], ["held_at_end", "held at the end"], ["frames", "frames"], ["events", "recorded events"]];
const share = (part, whole) => `${number((100 * part) / whole)} %`;

function cards(run) {
  const latency = run.latency.count ? [["latency, median", `${number(run.latency.p50)} ms`], ["latency, 99 %", `${number(run.latency.p99)} ms`], ["held back", share(run.holds.count, run.latency.count)]] : [];
  return make("dl", { class: "cards" }, [...COUNTS.map(([key, words]) => [words, number(run.summary[key])]), ...latency].map(([words, value]) => make("div", {}, make("dt", {}, words), make("dd", {}, value))));
}

function comparison() {
  const figure = (of) => [of.latency.count ? of.latency.p50 : null, of.latency.count ? of.latency.p99 : null, of.summary.frames, of.control.reduce((sum, kind) => sum + kind.control_bytes, 0) / Math.max(1, of.summary.delivered), of.latency.count ? share(of.holds.count, of.latency.count) : null];
  return table(["run", "protocol", "properties that hold", "delivered", "expected", "latency p50, ms", "p99, ms", "frames", "control bytes per delivery", "held back"],
    runs.map((run) => [run.name, `${run.protocol} (${run.variant})`, `${run.properties.filter((property) => property.holds).length} of ${run.properties.length}`, run.summary.delivered, run.summary.expected, ...figure(run)]));
}

function properties() {
  const all = [...new Set(runs.flatMap((run) => run.properties.map((property) => property.name)))];
  const cell = (run, name) => {
    const property = run.properties.find((one) => one.name === name);
    if (!property) return "not claimed";
    return make("span", { class: property.holds ? "holds" : "violated" }, property.holds ? "holds" : `violated (${number(property.violations)})`);
  };
  return table(["property", ...(several ? names : ["verdict"])], all.map((name) => [name, ...runs.map((run) => cell(run, name))]));
}

const diagrams = new Map(runs.map((run) => [run.name, new SpaceTime(run)]));

function witness(run, one) {
  const showIt = () => { show(run.name); diagrams.get(run.name).showWitness(one); document.getElementById("diagram").scrollIntoView(); };
  return make("div", { class: "witness" }, make("p", {}, one.text), make("ol", {}, one.lines.map((line) => make("li", {}, line))), make("button", { type: "button", onclick: showIt }, "Show in the diagram"));
}

function witnesses(run) {
  return run.properties.filter((property) => !property.holds).map((property) => {
    const [first, ...more] = property.witnesses.map((one) => witness(run, one));
    return make("div", {}, make("h3", {}, several ? `${property.name} in ${run.name}` : property.name), first,
      more.length ? make("details", {}, make("summary", {}, `${more.length} more of ${number(property.violations)}`), more) : null);
  });
}

// A run has the same colour in every picture; those that are not in a picture are not in its legend.
const legendOf = (series) => !several ? [] : names.map((name) => series.find((one) => one.name === name)?.name);
const each = (of) => runs.map((run, at) => ({ name: run.name, at, of: of(run) })).filter(({ of: one }) => one.max > 0);

function spread(title, note, of) {
  const series = each(of);
  if (series.length === 0) return null;
  const numbers = table(["run", "count", "mean, ms", "p50", "p95", "p99", "most"], series.map(({ name, of: one }) => [name, one.count, one.mean, one.p50, one.p95, one.p99, one.max]));
  return figure(title, note, distributions(series, title), numbers, legendOf(series));
}

function overTime(key, title) {
  const rates = ({ bin_s: bin, [key]: counts }) => [...counts, counts.at(-1)].map((count, at) => [at * bin, count / bin]);
  const series = runs.map((run, at) => ({ name: run.name, at, step: true, points: rates(run.over_time) })).filter(({ points }) => points.some(([, rate]) => rate > 0));
  return series.length ? figure(title, null, lines(series, { label: "s" }, { label: "per second" }, title), null, legendOf(series)) : null;
}

const KINDS_SHOWN_MAX = 14;

function control(run) {
  const rows = run.control.slice(0, KINDS_SHOWN_MAX).map((kind) => ({ name: kind.kind, parts: [kind.control_bytes, kind.payload_bytes] }));
  if (rows.length === 0) return null;
  const legend = ["control bytes", "payload bytes"];
  return figure(several ? `Bytes sent by packet type, ${run.name}` : "Bytes sent by packet type", null, bars(rows, legend, "bytes", "Bytes sent by packet type"),
    table(["packet type", "frames", ...legend], run.control.map((kind) => [kind.kind, kind.frames, kind.control_bytes, kind.payload_bytes])), legend);
}

function load(run) {
  const rows = run.roles.map((role) => ({ name: `${role.role} (${role.nodes})`, parts: [role.sent_frames / role.nodes, role.received_frames / role.nodes] }));
  const legend = ["sent per node", "received per node"];
  return rows.length ? figure(several ? `Frames per role, ${run.name}` : "Frames per role", "mean per node of the role", bars(rows, legend, "frames", "Frames per role"),
    table(["role", "nodes", "sent frames", "received frames", "sent bytes", "received bytes"], run.roles.map((role) => [role.role, role.nodes, role.sent_frames, role.received_frames, role.sent_bytes, role.received_bytes])), legend) : null;
}

function buffers(run) {
  if (run.buffers.length === 0) return null;
  const series = run.buffers.map((one, at) => ({ name: `${one.node}: ${one.what}`, at, step: true, points: one.points }));
  return figure(several ? `Buffers, ${run.name}` : "Buffers", "how much is in use; the fullest", lines(series, { label: "s" }, { label: "in use" }, "Buffers"), null, series.map(({ name }) => name));
}

function faults() {
  const all = [...new Set(runs.flatMap((run) => run.faults.map((fault) => fault.name)))];
  if (all.length === 0) return null;
  return table(["fault", ...(several ? names : ["took effect"])], all.map((name) => [name, ...runs.map((run) => run.faults.find((fault) => fault.name === name)?.count ?? null)]));
}

function clocks(run) {
  if (run.clocks.length === 0) return null;
  const one = run.clocks.every((clock) => clock.offset_us === 0 && clock.drift_ppm === 0);
  const title = several ? `${run.name}: ` : "";
  if (one) return make("p", {}, `${title}All nodes are on one clock.`);
  return make("details", { open: true }, make("summary", {}, `${title}Put on the clock of ${run.clocks[0].node}`),
    table(["node", "offset, µs", "drift, ppm", "error at most, µs"], run.clocks.map((clock) => [clock.node, clock.offset_us, clock.drift_ppm, clock.error_us ?? null])));
}

function problems() {
  const found = runs.flatMap((run) => run.problems.map((problem) => `${several ? `${run.name}, ` : ""}${problem}`));
  return found.length ? make("details", { class: "problems" }, make("summary", {}, `What is missing or damaged in the captures (${found.length})`), make("ul", {}, found.map((problem) => make("li", {}, problem)))) : null;
}

function show(name) {
  document.querySelectorAll("[data-diagram]").forEach((element) => { element.hidden = element.dataset.diagram !== name; });
  document.querySelectorAll("[data-show]").forEach((button) => button.setAttribute("aria-pressed", button.dataset.show === name));
}

section("verdicts", "Verdicts", runs.map(verdict), several ? comparison() : cards(runs[0]), properties(), problems());
section("witnesses", "Counterexamples", grid(runs.flatMap(witnesses)));
section("time", "Latency and delivery", grid([
  spread("Delivery latency", "from submission to delivery, every message and receiver", (run) => run.latency),
  spread("Time held back", "from the hold to the delivery, where a message had to wait", (run) => run.holds),
  spread("Needless waiting (inhibition)", "held back although its last true predecessor had been delivered", (run) => run.needless),
  spread("Between two cells", "from leaving a cell to entering the next one", (run) => run.gaps),
  spread("After a handoff", "from entering a cell to the next delivery", (run) => run.silences),
  overTime("delivered", "Deliveries over time"), overTime("submitted", "Submissions over time")]));
section("cost", "Cost", grid([control, load, buffers].flatMap((part) => runs.map(part))));
section("faults", "Faults that took effect", faults());
section("diagram", "What happened", several ? make("p", {}, names.map((name) => make("button", { type: "button", "data-show": name, onclick: () => show(name) }, name))) : null,
  runs.map((run) => make("div", { "data-diagram": run.name }, diagrams.get(run.name).element())));
section("clocks", "Clocks", runs.map(clocks));
show(names[0]);
