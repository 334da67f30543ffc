// The miss-ratio curve: entries along, misses per 100 lookups up, a line for each number of ways.
const SPACE = "http://www.w3.org/2000/svg";
const ROOM = { left: 58, right: 16, top: 30, bottom: 46 };
const KNOWN = [1, 2, 4, 8, 16];

function drawing(tag, settings, text) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(settings)) made.setAttribute(name, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

function element(tag, settings, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(settings)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const short = (n) => (n >= 1 << 20 ? `${n >> 20} M` : n >= 1024 ? `${n >> 10} K` : String(n));
const styleOf = (ways) => (ways === null ? "way-any" : KNOWN.includes(ways) ? `way-${ways}` : "way-16");
const nameOf = (ways) => (ways === null ? "any place (fully associative)" : ways === 1 ? "direct-mapped" : `${ways} ways`);

function step(most) {
  const rough = most / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
}

function legend(lines, chosen) {
  return element("ul", { class: "legend" }, ...lines.map(({ ways }) => {
    const sample = drawing("svg", { viewBox: "0 0 34 10", "aria-hidden": "true" });
    sample.append(drawing("path", { d: "M0 5H34", class: `line ${styleOf(ways)}${ways === chosen ? " chosen" : ""}` }));
    return element("li", ways === chosen ? { class: "chosen" } : {}, sample, nameOf(ways));
  }));
}

function fillTable(table, lines, lookups) {
  const every = [...new Set(lines.flatMap(({ points }) => points.map(([entries]) => entries)))].sort((a, b) => a - b);
  const head = element("tr", {}, element("th", { scope: "col" }, "entries"), ...lines.map(({ ways }) => element("th", { scope: "col" }, nameOf(ways))));
  const body = every.map((entries) => element("tr", {}, element("th", { scope: "row" }, entries.toLocaleString("en-US")),
    ...lines.map(({ points }) => {
      const found = points.find(([each]) => each === entries);
      return element("td", {}, found ? `${found[1].toLocaleString("en-US")} (${(100 * found[1] / lookups).toFixed(2)} %)` : "");
    })));
  table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
}

export function drawCurve(answer, { place, note, table, details, choose }) {
  const { curve, total } = answer;
  const lookups = total.lookups || 1;
  const entries = answer.controls.entries.value;
  const chosen = answer.controls.ways.value ?? 1;
  const lines = [...curve.lines];
  if (curve.fully_associative.length) lines.push({ ways: null, points: curve.fully_associative });
  details.hidden = !lines.length;
  if (!lines.length) {
    place.replaceChildren();
    note.textContent = curve.pending ? "The curve is being counted."
      : curve.failed ? `There is no curve: ${curve.failed}`
        : "This scheme has no table of entries on the NIC, so it has no curve.";
    return;
  }
  fillTable(table, lines, lookups);
  const width = Math.max(place.clientWidth, 280);
  const height = Math.min(Math.max(width * 0.5, 240), 420);
  const points = lines.flatMap((line) => line.points);
  const low = Math.log2(Math.min(entries, ...points.map(([each]) => each)));
  const high = Math.max(Math.log2(Math.max(entries, ...points.map(([each]) => each))), low + 1);
  const top = Math.max(...points.map(([, misses]) => misses), total.ni_misses, 1) * 100 / lookups;
  const gap = step(top);
  const most = Math.ceil(top / gap - 1e-9) * gap;
  const x = (each) => ROOM.left + (Math.log2(each) - low) / (high - low) * (width - ROOM.left - ROOM.right);
  const y = (misses) => height - ROOM.bottom - misses * 100 / lookups / most * (height - ROOM.top - ROOM.bottom);
  const rate = (100 * total.ni_misses / lookups).toFixed(2);
  const said = `Misses per 100 lookups by number of entries; chosen: ${entries.toLocaleString("en-US")} entries, ${nameOf(chosen)}, ${rate} per 100`;
  const picture = drawing("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said });
  for (let each = 0; each <= most + gap / 2; each += gap) {
    const up = y(each * lookups / 100);
    picture.append(drawing("path", { d: `M${ROOM.left} ${up}H${width - ROOM.right}`, class: "grid" }));
    picture.append(drawing("text", { x: ROOM.left - 8, y: up + 4, "text-anchor": "end" }, String(Number(each.toPrecision(6)))));
  }
  const every = Math.ceil((high - low) / ((width - ROOM.left) / 62));
  for (let each = Math.ceil(low); each <= high; each += every) {
    picture.append(drawing("text", { x: x(2 ** each), y: height - ROOM.bottom + 20, "text-anchor": "middle" }, short(2 ** each)));
  }
  picture.append(drawing("text", { x: (ROOM.left + width) / 2, y: height - 6, "text-anchor": "middle" }, "entries on the NIC"));
  picture.append(drawing("text", { x: 4, y: 13 }, "misses per 100 lookups"));
  for (const line of lines) {
    const path = line.points.map(([each, misses], place) => `${place ? "L" : "M"}${x(each).toFixed(1)} ${y(misses).toFixed(1)}`).join("");
    picture.append(drawing("path", { d: path, class: `line ${styleOf(line.ways)}${line.ways === chosen ? " chosen" : ""}` }));
  }
  for (const line of lines) {
    if (line.ways === null) continue;
    for (const [each, misses] of line.points) {
      const dot = drawing("circle", { cx: x(each), cy: y(misses), r: 4.5, class: `dot ${styleOf(line.ways)}` });
      dot.append(drawing("title", {}, `${each.toLocaleString("en-US")} entries, ${nameOf(line.ways)}: ${misses.toLocaleString("en-US")} misses`));
      dot.addEventListener("click", () => choose(each, line.ways));
      picture.append(dot);
    }
  }
  const [hereX, hereY] = [x(entries), y(total.ni_misses)];
  picture.append(drawing("circle", { cx: hereX, cy: hereY, r: 8, class: "here" }));
  const isRight = hereX > width * 0.7;
  picture.append(drawing("text", { x: hereX + (isRight ? -14 : 14), y: Math.max(hereY - 10, 42), class: "told", "text-anchor": isRight ? "end" : "start" }, `${rate} per 100`));
  place.replaceChildren(picture, legend(lines, chosen));
  note.textContent = (answer.replayed ? "The chosen point is replayed." : "The chosen point follows from one replay and one pass over all caches, exactly.")
    + (curve.pending ? " More of the curve is being counted." : curve.failed ? ` More of the curve cannot be counted: ${curve.failed}.` : " A point can be clicked to choose it; the controls do the same.");
}
