"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const form = document.getElementById("pick");
const chart = document.getElementById("chart");
const tip = document.getElementById("tip");
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

const QUALITY = ["ndcg@10", "ndcg@10_ci95", "ndcg@10_difference", "ndcg@10_difference_ci95"];

const SHAPES = [
  (r) => `M${-r},0A${r},${r} 0 1 1 ${r},0A${r},${r} 0 1 1 ${-r},0Z`,
  (r) => `M${-r},${-r}H${r}V${r}H${-r}Z`,
  (r) => `M0,${-r * 1.2}L${r * 1.1},${r * 0.8}H${-r * 1.1}Z`,
  (r) => `M0,${-r * 1.3}L${r * 1.3},0L0,${r * 1.3}L${-r * 1.3},0Z`,
  (r) => `M0,${r * 1.2}L${r * 1.1},${-r * 0.8}H${-r * 1.1}Z`,
];

// --- numbers as text ---

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  return value.toFixed(digits).replace(/^(-?)0\./, "$1.").replace("-", "−");
}

function bound(value) {
  if (value === null || value === undefined) return "–";
  return value === "inf" ? "∞" : Number(value.toPrecision(3)).toString();
}

function interval(ends) {
  return ends ? `[${number(ends[0], 2)}, ${number(ends[1], 2)}]` : "";
}

/** How far nDCG@10 is from that of no defense. */
function difference(row) {
  const value = row["ndcg@10_difference"];
  return (value >= 0.0005 ? "+" : "") + number(value);
}

// --- what is chosen ---

function worst(rows, by) {
  return rows.reduce((first, second) => (by(second) > by(first) ? second : first));
}

/** The rows to show: of the worst case, each column has its own. */
function chosenRows() {
  const chosen = Object.fromEntries(new FormData(form));
  const fits = (row) =>
    ["click_model", "scenario", "data", "learner"].every(
      (name) => !(name in chosen) || chosen[name] === "worst" || row[name] === chosen[name],
    ) &&
    (!("eps" in chosen) || row.eps === null || String(row.eps) === chosen.eps);
  const rows = DATA.rows.filter(fits);
  return DATA.defenses
    .map((name) => rows.filter((row) => row.alternative === name))
    .filter((same) => same.length)
    .map((same) => {
      const leak = worst(same, (row) => row.above_guess ?? -1);
      const cost = worst(same, (row) => -(row["ndcg@10_difference"] ?? row["ndcg@10"] ?? 0));
      const quality = Object.fromEntries(QUALITY.map((name) => [name, cost[name]]));
      return { ...leak, ...quality, cost_clicks: cost.click_model };
    });
}

function observer() {
  return new FormData(form).get("observer") || DATA.views[0];
}

// --- the table ---

function element(tag, parts, properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...[].concat(parts));
  return made;
}

function small(text) {
  return element("small", text);
}

function tableRow(row, view) {
  const place = DATA.defenses.indexOf(row.alternative);
  const [mark, sign] = DATA.marks[row.verdict];
  const letter = element("i", `${LETTERS[place]} `, { className: `k${place % 7}` });
  const numbers = [
    ...DATA.audited.map((each) => [[bound(row[`eps_proven_${each}`])], each === view ? "seen" : ""]),
    [row.runs_without_sum === row.runs ? ["no sum"] : [number(row.auc), small(interval(row.auc_ci95))], ""],
    [[number(row.baseline_auc), small(row.guess_by)], ""],
    [[number(row.above_guess), small(interval(row.above_guess_ci95))], row.beats ? "bad" : ""],
    [[number(row.grades_auc)], ""],
    [[number(row["ndcg@10"]), small(interval(row["ndcg@10_ci95"]))], ""],
    [[difference(row), small(interval(row["ndcg@10_difference_ci95"]))], ""],
    [[row.bytes_per_client?.toLocaleString("en", { maximumFractionDigits: 0 }) ?? "–"], ""],
  ];
  const cells = [
    element("th", [letter, row.name.replaceAll("+", " + ")], { scope: "row" }),
    element("td", sign + row.verdict, { className: `verdict ${mark}` }),
    ...numbers.map(([parts, name]) => element("td", parts, { className: `n ${name}` })),
  ];
  cells.forEach((cell, index) => {
    cell.dataset.label = DATA.head[index];
  });
  return element("tr", cells, { className: row.verdict === "recommended" ? "best" : "" });
}

// --- the chart ---

function draw(tag, attributes, parts = [], into = chart) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) made.setAttribute(name, attributes[name]);
  made.append(...[].concat(parts));
  into.append(made);
  return made;
}

/** The largest AUC that the proof leaves to any attack; undefined where it was not computed. */
function ceiling(row, view) {
  return row.ceilings.find((each) => each.view === view)?.auc;
}

function words(row, view) {
  const cap = ceiling(row, view);
  const proven = cap === undefined ? "not computed" : cap >= 1 ? "nothing for this observer" : `an AUC of at most ${number(cap)}`;
  const lines = [
    row.name,
    `${row.click_model} clicks, attacked by one who sees: ${DATA.sees[row.attacked]}`,
    `AUC ${number(row.auc)} ${interval(row.auc_ci95)} by ${row.attack ?? "no attack"}`,
    `guess without message and grades ${number(row.baseline_auc)} (${row.guess_by}); with the grades ${number(row.grades_auc)}`,
    `the attack adds ${number(row.above_guess)} ${interval(row.above_guess_ci95)} to that guess`,
    `proven for ${DATA.sees[view]}: ${proven}`,
    `nDCG@10 ${number(row["ndcg@10"])}, difference to no defense ${difference(row)} (${row.cost_clicks} clicks)`,
  ];
  return lines.join("\n");
}

function showTip(mark, text, x, y, scale) {
  tip.of = mark;
  tip.textContent = text;
  tip.style.left = `${Math.min(x * scale + 14, Math.max(0, chart.clientWidth - tip.offsetWidth))}px`;
  tip.style.top = `${Math.max(0, y * scale - tip.offsetHeight - 14)}px`;
}

function overlaps(one, other) {
  return one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
}

function drawAxes(size, x, y, low, high) {
  const { width, height, left, right, top, bottom } = size;
  for (let value = low; value < high + 1e-9; value += 0.05) {
    draw("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) });
    draw("text", { class: "dim", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value, 2));
  }
  for (const value of [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]) {
    draw("text", { class: "dim", x: x(value), y: height - bottom + 18, "text-anchor": "middle" }, number(value, 1));
  }
  draw("line", { class: "grid", x1: x(0.5), x2: x(0.5), y1: top, y2: height - bottom, "stroke-dasharray": "5 4" });
  draw("text", { class: "dim", x: x(0.5) + 4, y: height - bottom - 6 }, "coin flip");
  draw("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, "AUC of the best attack: ← more private");
  draw("text", { x: 4, y: 12 }, "nDCG@10 ↑ better");
}

function drawRow(row, view, size, x, y, taken) {
  const place = DATA.defenses.indexOf(row.alternative);
  const group = draw("g", { class: `k${place % 7}` });
  const [px, py, cap] = [x(row.auc), y(row["ndcg@10"]), ceiling(row, view)];
  const auc = row.auc_ci95 || [row.auc, row.auc];
  const ndcg = row["ndcg@10_ci95"] || [row["ndcg@10"], row["ndcg@10"]];
  draw("line", { class: "bar", x1: x(auc[0]), x2: x(auc[1]), y1: py, y2: py }, [], group);
  draw("line", { class: "bar", x1: px, x2: px, y1: y(ndcg[0]), y2: y(ndcg[1]) }, [], group);
  if (cap !== undefined && cap < 1) {
    draw("line", { class: "to", x1: px, x2: x(cap), y1: py, y2: py }, [], group);
    draw("line", { class: "cap", x1: x(cap), x2: x(cap), y1: py - 9, y2: py + 9 }, [], group);
  }
  if (row.baseline_auc !== null) draw("circle", { class: "guess", cx: x(row.baseline_auc), cy: py, r: 4 }, [], group);
  const text = words(row, view);
  const mark = draw(
    "g",
    {
      class: row.attacked === view ? "mark" : "mark hollow",
      transform: `translate(${px} ${py})`,
      tabindex: 0,
      role: "img",
      "aria-label": text.replaceAll("\n", "; "),
    },
    [],
    group,
  );
  draw("path", { d: SHAPES[place % SHAPES.length](6.5) }, [], mark);
  const show = () => showTip(mark, text, px, py, chart.clientWidth / size.width);
  const hide = () => {
    if (tip.of === mark) tip.textContent = "";
  };
  for (const name of ["pointerenter", "focus"]) mark.addEventListener(name, show);
  for (const name of ["pointerleave", "blur"]) mark.addEventListener(name, hide);
  placeLabel(size.width < 600 ? LETTERS[place] : row.alternative, group, px, py, size, taken);
}

/** Write a label at the nearest free place beside its mark: the browser knows how wide letters are. */
function placeLabel(text, group, px, py, size, taken) {
  const label = draw("text", { class: "label", "aria-hidden": true }, text, group);
  const { width, height } = label.getBBox();
  const places = [];
  for (const dy of [0, -14, 14, -22, 22, -34, 34, -48, 48, -64, 64]) {
    for (const left of [px + 12, px + 5, px - 12 - width, px - 5 - width]) {
      places.push([left, py + dy - height / 2, left + width, py + dy + height / 2]);
    }
  }
  const inside = (box) =>
    box[0] >= size.left && box[2] <= size.width && box[1] >= size.top && box[3] <= size.height - size.bottom;
  const free = (box) => inside(box) && !taken.some((other) => overlaps(box, other));
  const box = places.find(free) || places.find(inside) || places[0];
  taken.push(box);
  label.setAttribute("x", box[0]);
  label.setAttribute("y", box[3] - height * 0.22);
}

function drawChart(rows, view) {
  const known = rows.filter((row) => row.auc !== null && row["ndcg@10"] !== null);
  const width = Math.max(340, Math.min(1100, chart.parentElement.clientWidth));
  const size = { width, height: width < 600 ? 360 : 400, left: 46, right: 14, top: 26, bottom: 44 };
  chart.setAttribute("viewBox", `0 0 ${width} ${size.height}`);
  chart.replaceChildren();
  if (!known.length) {
    draw("text", { x: 4, y: 40 }, "No defense here has both an attack and a ranker that could be judged.");
    return;
  }
  const values = known.flatMap((row) => row["ndcg@10_ci95"] || [row["ndcg@10"]]);
  const low = Math.floor(Math.min(...values) * 20) / 20;
  const high = Math.max(low + 0.05, Math.ceil(Math.max(...values) * 20) / 20);
  const x = (value) => size.left + ((Math.max(0.4, value) - 0.4) / 0.62) * (width - size.left - size.right);
  const y = (value) => size.height - size.bottom - ((value - low) / (high - low)) * (size.height - size.bottom - size.top);
  drawAxes(size, x, y, low, high);
  const taken = known.flatMap((row) => {
    const [px, py] = [x(row.auc), y(row["ndcg@10"])];
    const auc = row.auc_ci95 || [row.auc, row.auc];
    return [[px - 9, py - 9, px + 9, py + 9], [x(auc[0]), py - 1, x(auc[1]), py + 1]];
  });
  for (const row of known) drawRow(row, view, size, x, y, taken);
}

// --- learning curves ---

function drawCurve(rows, metric, title, into) {
  const lines = rows
    .map((row) => [row, row[metric].map((value, at) => [row.round[at], value]).filter(([, value]) => value !== null)])
    .filter(([, points]) => points.length);
  if (!lines.length) return;
  const points = lines.flatMap(([, each]) => each);
  const last = Math.max(1, ...points.map(([round]) => round));
  const low = Math.floor(Math.min(...points.map(([, value]) => value)) * 10) / 10;
  const high = Math.max(low + 0.1, Math.ceil(Math.max(...points.map(([, value]) => value)) * 10) / 10);
  const x = (round) => 34 + (362 * round) / last;
  const y = (value) => 192 - (186 * (value - low)) / (high - low);
  const figure = element("figure", element("figcaption", title), { className: "curve" });
  const words = lines.map(([row, each]) => `${row.name} ends at ${number(each.at(-1)[1])}`).join("; ");
  const svg = draw("svg", { viewBox: "0 0 400 200", role: "img", "aria-label": `${title}: ${words}` }, [], figure);
  for (let value = low; value < high + 1e-9; value += 0.1) {
    draw("line", { class: "grid", x1: 34, x2: 396, y1: y(value), y2: y(value) }, [], svg);
    draw("text", { x: 30, y: y(value) + 4, "text-anchor": "end" }, number(value, 1), svg);
  }
  for (const [row, each] of lines) {
    const place = each.map(([round, value]) => `${x(round).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    const line = draw("polyline", { class: `k${DATA.defenses.indexOf(row.alternative) % 7}`, points: place }, [], svg);
    draw("title", {}, row.name, line);
  }
  into.append(figure);
}

/** Offline and online nDCG@10 by round, a picture for each world. */
function drawCurves(into) {
  const world = (row) => JSON.stringify([row.data, row.scenario, row.click_model]);
  for (const name of new Set(DATA.curves.map(world))) {
    const rows = DATA.curves.filter((row) => world(row) === name);
    for (const metric in DATA.panels) {
      drawCurve(rows, metric, `${DATA.panels[metric]}, ${rows[0].click_model} clicks`, into);
    }
  }
}

// --- both, and sorting ---

function show() {
  const [rows, view] = [chosenRows(), observer()];
  document.querySelector("#defenses tbody").replaceChildren(...rows.map((row) => tableRow(row, view)));
  drawChart(rows, view);
}

function sortKey(row, column) {
  const text = row.cells[column].textContent;
  const value = parseFloat(text.replace("−", "-"));
  return Number.isNaN(value) ? text : value;
}

function sortBy(button) {
  const head = button.parentElement;
  const body = head.closest("table").tBodies[0];
  const up = head.ariaSort !== "ascending";
  for (const other of head.parentElement.cells) other.ariaSort = null;
  head.ariaSort = up ? "ascending" : "descending";
  const order = (one, other) => {
    const [a, b] = [sortKey(one, head.cellIndex), sortKey(other, head.cellIndex)];
    return (a > b ? 1 : a < b ? -1 : 0) * (up ? 1 : -1);
  };
  body.append(...[...body.rows].sort(order));
}

if (form) {
  form.addEventListener("change", show);
  addEventListener("resize", () => drawChart(chosenRows(), observer()));
  show();
}
const curves = document.getElementById("curves");
if (curves) drawCurves(curves);
for (const button of document.querySelectorAll(".sort button")) {
  button.addEventListener("click", () => sortBy(button));
}
