"use strict";
// Elements are made here and nowhere else. Strings become text nodes, so nothing that comes from data is ever markup.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

function button(text, attributes, pressed) {
  return make("button", { type: "button", ...attributes, click: pressed }, text);
}

// A table of strings and elements, without a head if `heads` is null; cells of `numeric` columns stand to the right.
function table(heads, rows, numeric = () => false) {
  const cell = (tag) => (content, place) =>
    make(tag, { class: numeric(place) ? "number" : null, scope: tag === "th" ? "col" : null }, content ?? "–");
  return make(
    "div",
    { class: "wide" },
    make(
      "table",
      {},
      heads && make("thead", {}, make("tr", {}, heads.map(cell("th")))),
      make(
        "tbody",
        {},
        rows.map((row) => make("tr", { class: row.look ?? null }, (row.cells ?? row).map(cell("td")))),
      ),
    ),
  );
}

function count(number) {
  return Number(number).toLocaleString("en");
}

// A number as people write it: six digits at most, whole ones whole.
function figure(number) {
  if (number === null || Number.isNaN(number)) return "–";
  if (Number.isInteger(number)) return String(number);
  const size = Math.abs(number);
  return size >= 1e6 || size < 1e-4 ? number.toExponential(3) : String(Number(number.toPrecision(6)));
}

function brief(text, most = 60) {
  const letters = Array.from(text);
  return letters.length <= most ? text : letters.slice(0, most - 1).join("") + "…";
}

function plural(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

function complain(sentence) {
  const trouble = byId("trouble");
  trouble.textContent = sentence;
  trouble.hidden = !sentence;
}
