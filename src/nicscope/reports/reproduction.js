// Filters over what is on the page; what is chosen stands behind the # of the address.
"use strict";
(() => {
  const form = document.getElementById("filters");
  const paper = document.getElementById("paper");
  const words = document.getElementById("words");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const checks = [...document.querySelectorAll(".check")];
  const texts = new Map(checks.map((check) => {
    const item = check.closest(".item");
    const head = item.querySelector("h3").textContent;
    const group = check.closest("tbody")?.querySelector(".group")?.textContent ?? "";
    return [check, `${item.id} ${head} ${group} ${check.textContent}`.toLowerCase()];
  }));
  const chosen = (name) => new Set(boxes.filter((box) => box.name === name && box.checked).map((box) => box.value));

  const target = (link) => document.getElementById(decodeURIComponent(link.hash.slice(1)));

  function show() {
    const labels = chosen("label");
    const verdicts = chosen("verdict");
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const isFiltered = boxes.some((box) => !box.checked) || wanted.length > 0;
    let count = 0;
    for (const check of checks) {
      const isMine = !paper.value || check.closest(".paper").dataset.paper === paper.value;
      const isShown = isMine && labels.has(check.dataset.label) && verdicts.has(check.dataset.verdict)
        && wanted.every((word) => texts.get(check).includes(word));
      check.hidden = !isShown;
      count += isShown;
    }
    for (const body of document.querySelectorAll("tbody")) {
      const rows = [...body.querySelectorAll(".check")];
      if (rows.length) body.hidden = rows.every((row) => row.hidden);
    }
    for (const part of document.querySelectorAll(".item .scroll, .statements, .item figure")) {
      const rows = [...part.querySelectorAll(".check")];
      if (rows.length) part.hidden = rows.every((row) => row.hidden);
    }
    for (const item of document.querySelectorAll(".item")) {
      const rows = [...item.querySelectorAll(".check")];
      item.hidden = rows.length ? rows.every((row) => row.hidden) : isFiltered;
    }
    for (const section of document.querySelectorAll(".paper")) {
      const isMine = !paper.value || section.dataset.paper === paper.value;
      section.hidden = !isMine || [...section.querySelectorAll(".item")].every((item) => item.hidden);
    }
    for (const link of document.querySelectorAll(".contents a")) link.parentElement.hidden = target(link).hidden;
    document.getElementById("count").textContent = `${count} of ${checks.length} numbers and statements are shown`;
  }

  function spell() {
    const said = new URLSearchParams();
    if (paper.value) said.set("paper", paper.value);
    for (const name of ["label", "verdict"]) {
      const all = boxes.filter((box) => box.name === name);
      if (all.some((box) => !box.checked)) said.set(name, [...chosen(name)].join(","));
    }
    if (words.value) said.set("words", words.value);
    return String(said);
  }

  function read() {
    const said = new URLSearchParams(location.hash.slice(1));
    paper.value = said.get("paper") ?? "";
    if (paper.selectedIndex < 0) paper.value = "";
    words.value = said.get("words") ?? "";
    for (const box of boxes) box.checked = !said.has(box.name) || said.get(box.name).split(",").includes(box.value);
    show();
  }

  function changed() {
    const said = spell();
    history.replaceState(null, "", said ? `#${said}` : location.pathname + location.search);
    show();
  }

  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  function showAll() {
    paper.value = "";
    words.value = "";
    for (const box of boxes) box.checked = true;
    changed();
  }
  document.getElementById("all").addEventListener("click", showAll);
  for (const link of document.querySelectorAll("#overview a")) {
    link.addEventListener("click", () => { if (target(link).hidden) showAll(); });
  }
  window.addEventListener("hashchange", () => { if (location.hash.includes("=") || !location.hash) read(); });
  form.hidden = checks.length === 0;
  read();
})();
