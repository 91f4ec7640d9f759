"use strict";
// Creates all elements. Strings become text nodes, so data is never parsed as HTML.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function makeSvg(tag, attributes = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

function button(text, attributes, onClick) {
  return make("button", { type: "button", ...attributes, click: onClick }, text);
}

function colorDot(color, marker = "circle") {
  const dot = make("span", { class: `swatch ${marker}` });
  dot.style.background = color;
  return dot;
}

// The text with places where a line can break: after the separators of a name like od280/od315_of_diluted_wines.
function breakable(text) {
  return text.split(/(?<=[_/.\-])(?=[^\s\d])/).flatMap((part, index) => (index ? [make("wbr"), part] : [part]));
}

// A table of strings and elements; `headings` can be null, `name` is for screen readers. Columns for which
// `isNumeric(index)` are right-aligned.
function table(name, headings, rows, isNumeric = () => false) {
  const cell = (tag) => (content, index) =>
    make(tag, { class: isNumeric(index) ? "number" : null, scope: tag === "th" ? "col" : null }, content ?? "–");
  const heading = (text, index) => (text === "" ? make("td") : cell("th")(text, index)); // no heading is no empty one
  return make(
    "div",
    { class: "wide" },
    make(
      "table",
      { "aria-label": name },
      headings && make("thead", {}, make("tr", {}, headings.map(heading))),
      make(
        "tbody",
        {},
        rows.map((row) => make("tr", { class: row.class ?? null }, (row.cells ?? row).map(cell("td")))),
      ),
    ),
  );
}

function formatCount(number) {
  return Number(number).toLocaleString("en");
}

// At most six significant digits; integers in full.
function formatNumber(number) {
  if (number === null || Number.isNaN(number)) return "–";
  if (Number.isInteger(number)) return String(number);
  const size = Math.abs(number);
  return size >= 1e6 || size < 1e-4 ? number.toExponential(3) : String(Number(number.toPrecision(6)));
}

function truncate(text, maxLength = 60) {
  const characters = Array.from(text);
  return characters.length <= maxLength ? text : characters.slice(0, maxLength - 1).join("") + "…";
}

function plural(number, word) {
  return `${formatCount(number)} ${word}${number === 1 ? "" : "s"}`;
}

// Says a sentence to users of screen readers.
function announce(sentence) {
  byId("announcement").textContent = sentence;
}

// An empty sentence hides the error.
function showError(sentence) {
  const box = byId("error");
  box.textContent = sentence;
  box.hidden = !sentence;
}
