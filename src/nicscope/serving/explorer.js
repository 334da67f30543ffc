// The page's behaviour: the address holds the state, the server has every number.
import { drawCurve } from "/curve.js";

const AGAIN_MS = 150; // until it is asked again how far a pass is
const LATER_MS = 500; // until more of a curve is asked for
const NUMBERED = ["ways", "line", "prefetch", "page_size", "pin_limit"];
const $ = (id) => document.getElementById(id);

let about = null;
let query = new URLSearchParams(); // as the server spells it
let asked = query; // what is on its way to become that
let choices = []; // of entries
let turn = 0; // what was asked before the latest asking is nobody's any more

const whole = (n) => n.toLocaleString("en-US");
const fine = (x) => (x === 0 ? "0" : x >= 100 ? x.toFixed(0) : x.toPrecision(3));

function bytes(count) {
  let size = count;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024 || unit === "GiB") return `${Number.isInteger(size) ? size : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
}

// Nothing but text is ever put into the page.
function element(tag, settings = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(settings)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function bounds(value) {
  if (value === null || value === undefined) return null;
  return Array.isArray(value) ? value : [value, value];
}

function between(value, scale = 1) {
  const both = bounds(value);
  if (both === null) return "?";
  const [low, high] = both.map((each) => fine(each * scale));
  return low === high ? low : `${low} to ${high}`;
}

function row(cells, kind = "td") {
  return element("tr", {}, ...cells.map((cell) => (cell instanceof Node ? cell : element(kind, {}, String(cell)))));
}

function left(text, kind = "td") {
  return element(kind, kind === "th" ? { class: "left", scope: "col" } : { class: "left" }, text);
}

function bar(share) {
  const space = "http://www.w3.org/2000/svg";
  const drawn = document.createElementNS(space, "svg");
  drawn.setAttribute("viewBox", "0 0 100 10");
  drawn.setAttribute("preserveAspectRatio", "none");
  drawn.setAttribute("aria-hidden", "true");
  const piece = document.createElementNS(space, "rect");
  piece.setAttribute("width", String(100 * share));
  piece.setAttribute("height", "10");
  drawn.append(piece);
  return element("td", { class: "bar" }, drawn);
}

function textOf(name, value) {
  if (name === "page_size") return bytes(value);
  return whole(value);
}

function fillSelect(name, control) {
  const select = $(name);
  const options = control.choices.map((value) => [String(value), textOf(name, value)]);
  if (control.optional && control.used) options.unshift(["none", "no limit"]);
  const before = [...select.options].map((each) => each.value).join();
  if (before !== options.map(([value]) => value).join()) {
    select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  }
  if (control.used) select.value = control.value === null ? "none" : String(control.value);
}

function fillControls(answer) {
  $("design").value = answer.design.called;
  $("design-hint").textContent = answer.design.description;
  for (const [name, control] of Object.entries(answer.controls)) {
    const input = $(name);
    input.disabled = !control.used;
    $(`${name}-hint`).textContent = control.used ? control.meaning : `${control.meaning} Not in scheme ${answer.design.scheme}.`;
    if (name !== "entries") fillSelect(name, control);
  }
  const entries = answer.controls.entries;
  choices = entries.choices;
  if (entries.used) {
    $("entries").max = String(choices.length - 1);
    $("entries").value = String(choices.indexOf(entries.value));
  }
  tellEntries(entries.used);
}

function tellEntries(used = true) {
  const count = used ? choices[Number($("entries").value)] : undefined;
  const text = count === undefined ? "none" : whole(count);
  $("entries-shown").textContent = text;
  $("entries").setAttribute("aria-valuetext", count === undefined ? text : `${text} entries`);
}

function fillNumbers(answer) {
  const { total, cost_us: cost, nic_memory_bytes: memory } = answer;
  const misses = total.ni_misses;
  const rate = total.lookups ? misses / total.lookups : 0;
  const nic = Object.values(memory).reduce((sum, each) => sum + each, 0);
  const atLeast = cost.lower_bound ? "at least " : "";
  const cards = [
    ["misses", "Misses of the NIC", misses, whole(misses), `${fine(100 * rate)} per 100 lookups`],
    ["lookups", "Lookups of pages", total.lookups, whole(total.lookups), `of ${whole(total.requests)} requests`],
    ["us", "Cost per lookup", JSON.stringify(cost.per_lookup), `${atLeast}${between(cost.per_lookup)} us`,
      answer.weakest_evidence === null ? "nothing is priced" : `weakest evidence: ${answer.weakest_evidence}`],
    ["nic", "Memory of the NIC", nic, bytes(nic), "of the NIC that takes most"],
    ["interrupts", "Interrupts of the host", total.interrupts, whole(total.interrupts), ""],
    ["pinned", "Pinned at the peak", total.peak_pinned_pages * answer.page_size,
      bytes(total.peak_pinned_pages * answer.page_size), `${whole(total.peak_pinned_pages)} pages of ${bytes(answer.page_size)}`],
    ["pins", "Pages pinned", total.pins, whole(total.pins), `and ${whole(total.unpins)} unpinned`],
  ];
  if (total.rejected) cards.push(["rejected", "Not carried out", total.rejected, whole(total.rejected), "requests rejected"]);
  $("numbers").replaceChildren(...cards.map(([id, name, value, text, more]) =>
    element("div", {}, element("dt", {}, name),
      element("dd", { id, "data-value": value }, text, more ? element("small", {}, more) : null))));
  const sampled = answer.sample === undefined ? ""
    : `A sample, the first ${whole(answer.sample)} of ${whole(about.requests)} requests; exact numbers follow. `;
  $("sentence").textContent =
    `${sampled}${answer.design.title}. ${whole(misses)} of ${whole(total.lookups)} lookups miss on the NIC` +
    `${cost.per_lookup === null ? "" : `, and a lookup takes ${atLeast}${between(cost.per_lookup)} us on ${cost.platform}`}` +
    `; the NIC holds ${bytes(nic)}.`;
  $("brief").textContent = [`${fine(100 * rate)} misses per 100`, cost.per_lookup === null ? null : `${atLeast}${between(cost.per_lookup)} us a lookup`, bytes(nic)]
    .filter((each) => each !== null).join(" · ");
}

function fillCost(answer) {
  const cost = answer.cost_us;
  const lookups = answer.total.lookups || 1;
  const parts = cost.components.filter((part) => part.count);
  const most = Math.max(...parts.map((part) => bounds(part.total_us)[1]), 1e-12);
  const head = row([left("Step", "th"), "us per lookup", left("Evidence", "th"), left("", "th"), "Events", "us each", left("Source", "th")], "th");
  $("cost").replaceChildren(
    element("thead", {}, head),
    element("tbody", {}, ...parts.map((part) =>
      row([element("td", { class: "left step" }, part.name.replaceAll("_", " "), element("small", {}, answer.meanings[part.name])), between(part.total_us, 1 / lookups),
        element("td", { class: "left" }, element("span", { class: `evidence ${part.evidence}` }, part.evidence)),
        bar(bounds(part.total_us)[1] / most), whole(part.count), between(part.unit_cost_us),
        element("td", { class: "source" }, part.source)]))));
  const where = cost.platform === null ? "No platform prices this design." : `On platform ${cost.platform}.`;
  $("cost-note").textContent = parts.length ? where : `${where} Nothing that happened has a price.`;
  $("unpriced").replaceChildren(...cost.unpriced.map((part) =>
    element("p", {}, `Without a price: ${part.name.replaceAll("_", " ")}${part.count === null ? "" : `, ${whole(part.count)} times`} (${part.why}).`)));
}

function fillMemory(answer) {
  const parts = Object.entries(answer.nic_memory_bytes);
  const total = parts.reduce((sum, [, size]) => sum + size, 0);
  const most = Math.max(...parts.map(([, size]) => size), 1);
  $("memory").replaceChildren(
    element("thead", {}, row([left("Structure", "th"), "Bytes", "", left("", "th")], "th")),
    element("tbody", {}, ...parts.map(([name, size]) => row([left(name), whole(size), bytes(size), bar(size / most)]))),
    element("tfoot", {}, row([left("in all"), whole(total), bytes(total), ""])));
}

const spelled = (words) => words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");

function fillAgain(answer) {
  $("command").textContent = spelled(answer.command);
  $("file").textContent = answer.file;
  $("save").href = `/design.toml?${query}`;
  $("save").download = `${answer.design.name}-explored.toml`;
}

let drawn = null;

function fillCurve(answer) {
  drawn = answer;
  drawCurve(answer, {
    place: $("curve"), note: $("curve-note"), table: $("curve-table"), details: $("curve-details"),
    choose: (entries, ways) => change({ entries, ways }, true),
  });
}

function tellWorking(working) {
  $("working").hidden = working === undefined;
  $("shown").setAttribute("aria-busy", String(working !== undefined));
  if (working === undefined) return;
  $("working-what").textContent = `A new pass over the trace: ${working.what}, ${whole(working.done)} of ${whole(working.total)} requests`;
  $("working-bar").value = working.total ? working.done / working.total : 0;
}

// What keeps the numbers of `wanted` from being there; `again`: whether to ask once more may help.
function tellProblem(text, again) {
  const isThere = text !== "";
  $("problem").hidden = !isThere;
  $("problem-what").textContent = text;
  $("retry").hidden = $("problem-again").hidden = again === undefined;
  $("retry").onclick = () => begin(again);
  $("shown").classList.toggle("stale", isThere); // they are of what was chosen before
  $("brief").hidden = isThere;
  if (again !== undefined && about !== null) $("problem-again").textContent = spelled([...about.command, "--port", location.port]);
}

const ENDED = "The command nicscope explore has ended, so nothing is counted any more. Begin it again, then try again:";

// What the server says at `path`; an error has what is to be told.
async function ask(path) {
  const response = await fetch(path).catch(() => { throw new Error(ENDED); });
  return response.json().catch(() => { throw new Error(`nicscope explore could not answer (${response.status}); its terminal says why`); });
}

// Ask for what the address spells until all of it is there; `after` says what to do with the history.
async function show(wanted, after) {
  const mine = ++turn;
  let first = true;
  asked = wanted;
  while (mine === turn) {
    let answer;
    let again;
    try {
      answer = await ask(`/answer?${wanted}`);
    } catch (error) {
      answer = { error: error.message };
      again = wanted;
    }
    if (mine !== turn) return;
    if (answer.error !== undefined) {
      asked = again ?? query;
      tellWorking(undefined);
      tellProblem(answer.error, again);
      return;
    }
    tellProblem("");
    if (first) {
      asked = query = new URLSearchParams(answer.query);
      const address = `${location.pathname}?${query}`;
      if (after === "push" && address !== location.pathname + location.search) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
      fillControls(answer);
      first = false;
    }
    tellWorking(answer.working);
    if (answer.working === undefined || answer.sample !== undefined) {
      fillNumbers(answer);
      fillCost(answer);
      fillMemory(answer);
      fillAgain(answer);
      fillCurve(answer);
    }
    if (answer.working === undefined) {
      document.body.dataset.shown = query.toString(); // what the exact numbers are of
      if (!answer.curve.pending) return;
    }
    await new Promise((resolve) => setTimeout(resolve, answer.working ? AGAIN_MS : LATER_MS));
  }
}

function change(settings, isLast) {
  const wanted = new URLSearchParams(asked);
  for (const [name, value] of Object.entries(settings)) wanted.set(name, value);
  show(wanted, isLast ? "push" : "replace");
}

let dragged = null; // the address when dragging began, so that Back goes there

$("entries").addEventListener("input", () => {
  tellEntries();
  dragged ??= location.search;
  change({ entries: choices[Number($("entries").value)] }, false);
});
$("entries").addEventListener("change", () => {
  if (dragged !== null && dragged !== location.search) history.replaceState(null, "", location.pathname + dragged);
  dragged = null;
  change({ entries: choices[Number($("entries").value)] }, true);
});
for (const name of NUMBERED) $(name).addEventListener("change", () => change({ [name]: $(name).value }, true));
$("design").addEventListener("change", () => show(new URLSearchParams({ design: $("design").value }), "push"));
$("reset").addEventListener("click", () => show(new URLSearchParams({ design: $("design").value }), "push"));
$("controls").addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("popstate", () => show(new URLSearchParams(location.search), "replace"));
new ResizeObserver(() => drawn && fillCurve(drawn)).observe($("results"));

function fillDesigns() {
  const groups = new Map();
  for (const each of about.designs) {
    const label = each.is_file ? "your design files" : `scheme ${each.scheme}`;
    if (!groups.has(label)) groups.set(label, element("optgroup", { label }));
    groups.get(label).append(element("option", { value: each.called, title: each.title }, each.called));
  }
  $("design").replaceChildren(...groups.values());
}

async function begin(wanted) {
  try {
    about = await ask("/about");
  } catch (error) {
    return tellProblem(error.message, wanted);
  }
  $("trace").textContent = about.trace;
  document.title = `${about.trace}: nicscope explore`;
  $("about").textContent = `${whole(about.requests)} requests, recorded with pages of ${bytes(about.page_size)}. Change the design, and see what it misses, costs and takes.`;
  fillDesigns();
  await show(wanted, "replace");
}

begin(new URLSearchParams(location.search));
