"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const form = document.getElementById("pick");
const chart = document.getElementById("chart");
const tip = document.getElementById("tip");

const SHAPES = [
  (r) => `M${-r},0A${r},${r} 0 1 1 ${r},0A${r},${r} 0 1 1 ${-r},0Z`,
  (r) => `M${-r},${-r}H${r}V${r}H${-r}Z`,
  (r) => `M0,${-r * 1.2}L${r * 1.1},${r * 0.8}H${-r * 1.1}Z`,
  (r) => `M0,${-r * 1.3}L${r * 1.3},0L0,${r * 1.3}L${-r * 1.3},0Z`,
  (r) => `M0,${r * 1.2}L${r * 1.1},${-r * 0.8}H${-r * 1.1}Z`,
];
const RADIUS = 6.5;

// --- elements ---

function element(tag, parts, properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...[].concat(parts));
  return made;
}

function draw(tag, attributes, parts = [], into = chart) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) made.setAttribute(name, attributes[name]);
  made.append(...[].concat(parts));
  into.append(made);
  return made;
}

/** The text, the text below it and the mark of a cell. */
function cellOf(cell) {
  const [text, below = "", mark = ""] = [].concat(cell).map((number) => DATA.texts[number]);
  return { text, below, mark };
}

function cellParts({ text, below }) {
  return below ? [text, " ", element("small", below)] : [text];
}

function letterOf(place) {
  return element("i", DATA.defenses[place][1], { className: `k${place % 7}` });
}

// --- what is chosen ---

function choices() {
  return Object.fromEntries(new FormData(form));
}

/** For each defense that is left by the choices: its place, and its parts, each of its own worst case. */
function chosenLines() {
  const chosen = choices();
  const fits = ([, places]) =>
    DATA.choices.every((name, at) => {
      const choice = chosen[name] ?? "worst";
      return choice === "worst" || places[at] === null || places[at] === choice;
    });
  const rows = DATA.rows.filter(fits);
  const worst = (one, other) => (other[0] > one[0] ? other : one);
  return DATA.defenses.flatMap((_, place) => {
    const parts = rows.filter(([defense]) => defense === place).map((row) => row[2]);
    if (!parts.length) return [];
    const picked = DATA.observers[chosen.observer].parts.map((at) => parts.map((each) => each[at]).reduce(worst));
    const found = picked.map(([, cells, drawn]) => ({ cells: cells.map(cellOf), drawn }));
    const [name, verdict] = found;
    const [attack, quality, bytes] = found.slice(-3);
    return [{ place, name, verdict, attack, quality, bytes, cells: found.flatMap((part) => part.cells) }];
  });
}

// --- the table ---

function tableRow(line) {
  const [name, ...others] = line.cells;
  const { framed } = DATA.observers[choices().observer];
  const cells = others.map((cell, before) => {
    const at = before + 1;
    const names = [at > 1 ? "n" : "verdict", cell.mark, at === framed ? "seen" : ""];
    if (DATA.heads[at].startsWith("proven")) names.push("proven");
    const made = element("td", cellParts(cell), { className: names.join(" ") });
    made.dataset.label = DATA.heads[at];
    return made;
  });
  const head = element("th", [letterOf(line.place), " ", ...cellParts(name)], { scope: "row" });
  const best = line.verdict.cells[0].text.endsWith("recommended");
  return element("tr", [head, ...cells], { className: best ? "best" : "" });
}

/** What is shown, for the table and for paper. */
function caption() {
  const chosen = [...form.elements].map((one) => [one.labels[0].firstChild.data.trim(), one.selectedOptions[0].text]);
  return chosen.map((words) => words.join(": ")).join(" · ");
}

// --- the chart ---

/** A share without its leading zero. */
function number(value, digits) {
  return value.toFixed(digits).replace(/^(-?)0\./, "$1.");
}

function inWords(line) {
  const text = ({ text, below }) => `${text} ${below}`.trim();
  const [auc, guess, above, grades] = line.attack.cells;
  const [ndcg, difference] = line.quality.cells;
  const { by, proof, where } = line.attack.drawn;
  const { sees } = DATA.observers[choices().observer];
  return [
    `${line.name.cells[0].text}: ${line.verdict.cells[0].text}`,
    `attacked by one who sees: ${sees} (${where})`,
    `AUC ${text(auc)} by ${by ?? "no attack"}`,
    `guess without it ${text(guess)}; the attack adds ${text(above)}`,
    `guess with grades: ${text(grades)}`,
    `proven for this observer: ${proof}`,
    `nDCG@10 ${text(ndcg)}, to no defense ${text(difference)} (${line.quality.drawn.where})`,
    `${text(line.bytes.cells[0])} bytes a client and round`,
  ].join("\n");
}

/** Show a text beside a point of the chart: at its right and above it, if there is room. */
function showTip(mark, text, x, y) {
  const scale = chart.clientWidth / chart.viewBox.baseVal.width;
  const [px, py] = [x * scale, y * scale];
  tip.of = mark;
  tip.textContent = text;
  const right = px + 14 + tip.offsetWidth <= chart.clientWidth ? px + 14 : px - 14 - tip.offsetWidth;
  tip.style.left = `${Math.max(0, right)}px`;
  tip.style.top = `${py >= tip.offsetHeight + 14 ? py - tip.offsetHeight - 14 : py + 14}px`;
}

function hideTip() {
  tip.textContent = "";
}

/** Boxes are left, top, right and bottom. */
function overlaps(one, other) {
  return one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
}

function around(x, y, radius) {
  return [x - radius, y - radius, x + radius, y + radius];
}

/** An axis about some values: its ends and its step, which are multiples of .05. */
function axisOf(values, most) {
  const twentieths = values.map((value) => value * 20);
  const least = Math.max(0, Math.floor(Math.min(...twentieths) - 0.2));
  const high = Math.max(least + 2, Math.ceil(Math.max(...twentieths) + 0.2));
  const step = [1, 2, 4, 10, 20].find((each) => (high - least) / each <= most);
  const low = Math.floor(least / step) * step;
  const ticks = Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, n) => (low + n * step) / 20);
  return { low: low / 20, high: high / 20, ticks };
}

function drawAxes({ width, height, left, right, top, bottom, x, y, ticks }) {
  for (const value of ticks.y) {
    draw("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) });
    draw("text", { class: "dim", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value, 2));
  }
  for (const value of ticks.x) {
    if (value > 1) continue;
    draw("text", { class: "dim", x: x(value), y: height - bottom + 20, "text-anchor": "middle" }, number(value, 2));
  }
  draw("line", { class: "grid", x1: x(0.5), x2: x(0.5), y1: top, y2: height - bottom, "stroke-dasharray": "5 4" });
  draw("text", { class: "dim", x: x(0.5), y: height - bottom + 36, "text-anchor": "middle" }, "coin flip");
  draw("text", { x: (left + width) / 2, y: height - 5, "text-anchor": "middle" }, "AUC of the best attack: ← more private");
  draw("text", { x: 4, y: 12 }, "nDCG@10 ↑ better");
}

/** The place for the centre of a mark: its point, or the nearest free one beside it. */
function freePlace(px, py, area, taken) {
  const size = 2 * RADIUS + 6;
  const places = [[px, py]];
  for (let shift = size; shift < 6 * size; shift += size) {
    for (const dy of [0, shift, -shift]) {
      for (const dx of dy ? [0, -shift, shift] : [-shift, shift]) places.push([px + dx, py + dy]);
    }
  }
  const free = ([cx, cy], at) => {
    const box = around(cx, cy, RADIUS + 2);
    return (at === 0 || inside(box, area)) && !taken.some((other) => overlaps(box, other));
  };
  return places.find(free) ?? places[0];
}

function inside(box, area) {
  return box[0] >= area[0] && box[2] <= area[2] && box[1] >= area[1] && box[3] <= area[3];
}

/** The lines of a defense: intervals, the ceiling of its proof, and the ring of its guess. */
function drawLines(point, into) {
  const { x, y, auc, ndcg, guess, cap } = point;
  draw("line", { class: "bar", x1: x(auc[1]), x2: x(auc[2]), y1: point.py, y2: point.py }, [], into);
  draw("line", { class: "bar", x1: point.px, x2: point.px, y1: y(ndcg[1]), y2: y(ndcg[2]) }, [], into);
  if (cap !== null && cap < 1) {
    draw("line", { class: "to", x1: point.px, x2: x(cap), y1: point.py, y2: point.py }, [], into);
    draw("line", { class: "cap", x1: x(cap), x2: x(cap), y1: point.py - 9, y2: point.py + 9 }, [], into);
  }
  if (guess !== null) draw("circle", { class: "guess", cx: x(guess), cy: point.py, r: 4 }, [], into);
}

function drawMark({ line, px, py, cx, cy }, into) {
  const text = inWords(line);
  if (cx !== px || cy !== py) draw("line", { class: "to", x1: px, y1: py, x2: cx, y2: cy }, [], into);
  const label = text.replaceAll("\n", "; ");
  const place = `translate(${cx} ${cy})`;
  const mark = draw("g", { class: "mark", transform: place, tabindex: 0, role: "img", "aria-label": label }, [], into);
  draw("path", { d: SHAPES[line.place % SHAPES.length](RADIUS) }, [], mark);
  const show = () => showTip(mark, text, cx, cy);
  for (const name of ["pointerenter", "focus"]) mark.addEventListener(name, show);
  for (const name of ["pointerleave", "blur"]) mark.addEventListener(name, () => tip.of === mark && hideTip());
}

/** Write the name beside its mark where there is room, or else its letter: the browser knows how wide it is. */
function drawLabel({ line, cx, cy }, area, taken, into) {
  const name = line.name.cells[0].text;
  const texts = area[2] - area[0] < 550 ? [] : [name];
  for (const text of [...texts, DATA.defenses[line.place][1]]) {
    const label = draw("text", { class: "label", "aria-hidden": true }, text, into);
    const { width, height } = label.getBBox();
    const places = [];
    for (const dy of [0, -14, 14, -22, 22, -34, 34, -48, 48, -64, 64]) {
      for (const left of dy ? [cx + 5, cx - 5 - width, cx + 12, cx - 12 - width] : [cx + 12, cx - 12 - width]) {
        places.push([left, cy + dy - height / 2, left + width, cy + dy + height / 2]);
      }
    }
    const box = places.find((each) => inside(each, area) && !taken.some((other) => overlaps(each, other)));
    if (box) {
      taken.push(box);
      label.setAttribute("x", box[0]);
      label.setAttribute("y", box[3] - height * 0.22);
      return;
    }
    label.remove();
  }
}

function drawChart(lines, width = Math.max(300, Math.min(1100, chart.parentElement.clientWidth))) {
  const known = lines.filter(({ attack, quality }) => attack.drawn.auc && quality.drawn.ndcg);
  const size = { width, height: width < 600 ? 380 : 410, left: 40, right: 14, top: 26, bottom: 64 };
  const area = [size.left, size.top, width - 2, size.height - size.bottom];
  chart.setAttribute("viewBox", `0 0 ${width} ${size.height}`);
  chart.replaceChildren();
  hideTip();
  const missing = lines.filter((line) => !known.includes(line)).map((line) => line.name.cells[0].text);
  document.getElementById("missing").textContent = missing.length
    ? `Not in the picture, since this observer did not attack it or no ranker could be judged: ${missing.join("; ")}.`
    : "";
  if (!known.length) {
    draw("text", { x: 4, y: 40 }, "Nothing can be drawn for these choices.");
    return;
  }
  const points = known.map((line) => ({ line, ...line.attack.drawn, ...line.quality.drawn }));
  const aucs = points.flatMap(({ auc, guess, cap }) => [...auc, guess ?? auc[0], cap !== null && cap < 1 ? cap : auc[0]]);
  const across = axisOf([...aucs, 0.5], width < 600 ? 6 : 12);
  const up = axisOf(points.flatMap(({ ndcg }) => ndcg), 8);
  const end = Math.min(across.high, 1.02);
  const x = (value) => size.left + ((value - across.low) / (end - across.low)) * (width - size.left - size.right);
  const y = (value) => size.height - size.bottom - ((value - up.low) / (up.high - up.low)) * (size.height - size.bottom - size.top);
  drawAxes({ ...size, x, y, ticks: { x: across.ticks, y: up.ticks } });
  const marks = [];
  for (const point of points) {
    Object.assign(point, { x, y, px: x(point.auc[0]), py: y(point.ndcg[0]) });
    [point.cx, point.cy] = freePlace(point.px, point.py, area, marks);
    marks.push(around(point.cx, point.cy, RADIUS + 2));
  }
  const taken = points.flatMap(({ auc, ndcg, guess, cap, px, py }) => [
    [x(auc[1]), py - 1, x(auc[2]), py + 1],
    [px - 1, y(ndcg[2]), px + 1, y(ndcg[1])],
    ...(guess === null ? [] : [around(x(guess), py, 5)]),
    ...(cap === null || cap >= 1 ? [] : [[x(cap) - 2, py - 9, x(cap) + 2, py + 9]]),
  ]);
  taken.push(...marks);
  const groups = points.map(({ line }) => draw("g", { class: `k${line.place % 7}` }));
  points.forEach((point, at) => drawLines(point, groups[at]));
  for (const point of points) {
    const group = draw("g", { class: `k${point.line.place % 7}` });
    drawMark(point, group);
    drawLabel(point, area, taken, group);
  }
}

// --- learning curves ---

function drawCurve(rows, metric, title, into) {
  const lines = rows
    .map((row) => [row, row[metric].map((value, at) => [row.round[at], value]).filter(([, value]) => value !== null)])
    .filter(([, points]) => points.length);
  if (!lines.length) return;
  const points = lines.flatMap(([, each]) => each);
  const last = Math.max(1, ...points.map(([round]) => round));
  const { low, high, ticks } = axisOf(points.map(([, value]) => value), 5);
  const x = (round) => 34 + (362 * round) / last;
  const y = (value) => 192 - (186 * (value - low)) / (high - low);
  const figure = element("figure", element("figcaption", title), { className: "curve" });
  const words = lines.map(([row, each]) => `${row.name} ends at ${number(each.at(-1)[1], 3)}`).join("; ");
  const svg = draw("svg", { viewBox: "0 0 400 200", role: "img", "aria-label": `${title}: ${words}` }, [], figure);
  for (const value of ticks) {
    draw("line", { class: "grid", x1: 34, x2: 396, y1: y(value), y2: y(value) }, [], svg);
    draw("text", { x: 30, y: y(value) + 4, "text-anchor": "end" }, number(value, 2), svg);
  }
  for (const [row, each] of lines) {
    const place = each.map(([round, value]) => `${x(round).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    const line = draw("polyline", { class: `k${row.defense % 7}`, points: place }, [], svg);
    draw("title", {}, row.name, line);
  }
  into.append(figure);
}

/** Offline and online nDCG@10 by round, a picture for each world. */
function drawCurves(into) {
  const names = new Map(DATA.curves.map((row) => [row.defense, row.name]));
  const keys = [...names].flatMap(([place, name]) => [letterOf(place), ` ${name}; `]);
  into.append(element("p", keys));
  for (const where of new Set(DATA.curves.map((row) => row.where))) {
    const rows = DATA.curves.filter((row) => row.where === where);
    for (const metric in DATA.panels) drawCurve(rows, metric, `${DATA.panels[metric]}, ${where}`, into);
  }
}

// --- folded tables, and sorting ---

function fillTable(box) {
  const [heads, rows] = DATA.tables[box.dataset.table];
  const head = heads.map((text) => {
    const button = element("button", text, { type: "button" });
    button.addEventListener("click", () => sortBy(button));
    return element("th", button, { scope: "col" });
  });
  const body = rows.map((row) =>
    element("tr", row.map(cellOf).map((cell) => element("td", cellParts(cell), { className: cell.mark }))),
  );
  box.append(element("table", [element("thead", element("tr", head)), element("tbody", body)], { className: "sort" }));
}

/** The number or the text of a cell to sort by; null where a value is missing. */
function sortKey(row, column) {
  const text = row.cells[column].firstChild?.data ?? "";
  if (text === "-" || text === "") return null;
  const value = text === "∞" ? Infinity : Number(text.replace("−", "-").replaceAll(",", "").replace("%", ""));
  return Number.isNaN(value) ? text : value;
}

function compare(one, other) {
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  return typeof one === "number" ? one - other : one.localeCompare(other);
}

/** Sort the rows of a table by a column, or turn it round; missing values stay last. */
function sortBy(button) {
  const head = button.parentElement;
  const body = head.closest("table").tBodies[0];
  const up = head.ariaSort !== "ascending";
  for (const other of head.parentElement.cells) other.ariaSort = null;
  head.ariaSort = up ? "ascending" : "descending";
  const keyed = [...body.rows].map((row) => [sortKey(row, head.cellIndex), row]);
  const known = keyed.filter(([key]) => key !== null).sort(([one], [other]) => compare(one, other) * (up ? 1 : -1));
  body.append(...[...known, ...keyed.filter(([key]) => key === null)].map(([, row]) => row));
}

/** Make what a fold holds when it is opened first. */
function fill(fold) {
  for (const box of fold.querySelectorAll("[data-table]:empty")) fillTable(box);
  for (const box of fold.querySelectorAll("#curves:empty")) drawCurves(box);
}

// --- both ---

function show() {
  const lines = chosenLines();
  document.querySelector("#defenses tbody").replaceChildren(...lines.map(tableRow));
  document.getElementById("chosen").textContent = caption();
  drawChart(lines);
}

if (form) {
  form.addEventListener("change", show);
  addEventListener("resize", () => drawChart(chosenLines()));
  addEventListener("beforeprint", () => drawChart(chosenLines(), 700));
  addEventListener("afterprint", () => drawChart(chosenLines()));
  addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
  show();
}
for (const fold of document.querySelectorAll("details")) {
  fold.addEventListener("toggle", () => fill(fold));
}
