"use strict";
// How values become colors.

// The first six are Okabe and Ito's; the others were searched for, so that the nearest two of all twelve are as far
// apart as the nearest two of those six, to eyes that lack any one kind of cone (tests/test_report.py measures it).
const PALETTE = [
  "#0072b2",
  "#e69f00",
  "#009e73",
  "#cc79a7",
  "#56b4e9",
  "#d55e00",
  "#8590ff",
  "#a4270e",
  "#65e0ff",
  "#256a4a",
  "#aa408c",
  "#f5c95b",
];
const OTHER = "#9a9a9a";
const NOTHING = "#c4c4c4";
const PLAIN = "#4a7fb5";
// Viridis without its darkest tenth, which would be lost on a dark page.
const SCALE = [
  "#482475",
  "#414487",
  "#355f8d",
  "#2a788e",
  "#21918c",
  "#22a884",
  "#44bf70",
  "#7ad151",
  "#bddf26",
  "#fde725",
];
const STEPS = 64;

function mix(first, second, share) {
  const part = (color, at) => parseInt(color.slice(at, at + 2), 16);
  const channel = (at) => Math.round(part(first, at) * (1 - share) + part(second, at) * share);
  return `rgb(${channel(1)},${channel(3)},${channel(5)})`;
}

function scaleColor(share) {
  const place = Math.min(Math.max(share, 0), 1) * (SCALE.length - 1);
  const below = Math.min(Math.floor(place), SCALE.length - 2);
  return mix(SCALE[below], SCALE[below + 1], place - below);
}

// A painting says the color of every node of every run: `bins[run][row]` is a place in `colors`.
// `entries` is the legend of categories, `from` and `to` the ends of a scale.
function paint(runs, name) {
  const columns = runs.map((run) => columnNamed(run, name));
  if (!columns.some(Boolean)) return paintPlain(runs);
  const number = columns.every((column) => !column || column.kind === "number");
  return number ? paintNumbers(runs, columns) : paintCategories(runs, columns);
}

function paintPlain(runs) {
  return { kind: "plain", entries: [], colors: [PLAIN], bins: runs.map((run) => new Uint8Array(run.n)) };
}

function paintCategories(runs, columns) {
  const sizes = valueSizes(runs, columns);
  const many = sizes.size > PALETTE.length;
  let values = Array.from(sizes.keys());
  if (many) values = values.sort((a, b) => sizes.get(b) - sizes.get(a)).slice(0, PALETTE.length - 1);
  const entries = values.map((value, place) => ({ label: value, color: PALETTE[place], size: sizes.get(value) }));
  if (many) entries.push({ label: `${count(sizes.size - values.length)} others`, color: OTHER, size: 0, other: true });
  entries.push({ label: "no value", color: NOTHING, size: 0, nothing: true });
  const placeOf = new Map(values.map((value, place) => [value, place]));
  const bins = runs.map((run, place) => binsOf(run, columns[place], placeOf, entries.length));
  for (const entry of entries) entry.size = 0;
  for (const own of bins) for (const bin of own) entries[bin].size++;
  return { kind: "category", entries, colors: entries.map((entry) => entry.color), bins };
}

function valueSizes(runs, columns) {
  const sizes = new Map();
  columns.forEach((column, place) => {
    if (!column) return;
    for (const value of column.values ?? []) sizes.set(value, sizes.get(value) ?? 0);
    for (let row = 0; row < runs[place].n; row++) {
      const value = cellText(column, row);
      if (value !== null) sizes.set(value, (sizes.get(value) ?? 0) + 1);
    }
  });
  return sizes;
}

function binsOf(run, column, placeOf, length) {
  const other = length - 2;
  const nothing = length - 1;
  const bins = new Uint8Array(run.n).fill(nothing);
  for (let row = 0; column && row < run.n; row++) {
    const value = cellText(column, row);
    if (value !== null) bins[row] = placeOf.get(value) ?? other;
  }
  return bins;
}

function paintNumbers(runs, columns) {
  const known = columns.flatMap((column) => (column ? [column.numbers] : []));
  const [from, to, cutLow, cutHigh] = ends(known);
  const colors = Array.from({ length: STEPS }, (_, step) => scaleColor(step / (STEPS - 1)));
  const bins = runs.map((run, place) => {
    const numbers = columns[place]?.numbers;
    return Uint8Array.from({ length: run.n }, (_, row) => {
      const number = numbers ? numbers[row] : NaN;
      if (Number.isNaN(number)) return STEPS;
      return Math.round(Math.min(Math.max((number - from) / (to - from || 1), 0), 1) * (STEPS - 1));
    });
  });
  return { kind: "number", entries: [], colors: [...colors, NOTHING], bins, from, to, cutLow, cutHigh };
}

// The scale ends at the first and the last hundredth of the values, so that a few far ones do not take all colors.
function ends(arrays) {
  const all = Float64Array.from(
    arrays.flatMap((numbers) => Array.from(numbers)).filter((number) => !Number.isNaN(number)),
  );
  if (!all.length) return [0, 0, false, false];
  all.sort();
  const at = (share) => all[Math.round(share * (all.length - 1))];
  const low = at(0.01),
    high = at(0.99);
  if (low === high) return [all[0], all[all.length - 1], false, false];
  return [low, high, low > all[0], high < all[all.length - 1]];
}
