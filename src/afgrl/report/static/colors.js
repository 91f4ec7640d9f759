"use strict";
// Maps the values of a column to colors.

// The first six are by Okabe and Ito. The others were chosen by search so that, for normal vision and for each kind of
// color blindness, the closest two of all twelve differ as much as the closest two of those six (tests/report/test_colors.py).
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
// Groups beyond the first twelve have the same colors with another marker.
const MARKERS = ["circle", "square", "diamond", "triangle-up", "cross", "star"];
const MAX_GROUPS = PALETTE.length * MARKERS.length;
const OTHER_COLOR = "#9a9a9a";
const MISSING_COLOR = "#c4c4c4";
const SINGLE_COLOR = "#4a7fb5";
// Viridis without its darkest tenth, which would not be visible on a dark page.
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
const SCALE_STEPS = 64;
const SCALE_QUANTILES = [0.01, 0.99]; // a few outliers must not use up all colors

function mixColors(first, second, fraction) {
  const part = (color, at) => parseInt(color.slice(at, at + 2), 16);
  const channel = (at) => Math.round(part(first, at) * (1 - fraction) + part(second, at) * fraction);
  return `rgb(${channel(1)},${channel(3)},${channel(5)})`;
}

function scaleColor(fraction) {
  const position = Math.min(Math.max(fraction, 0), 1) * (SCALE.length - 1);
  const below = Math.min(Math.floor(position), SCALE.length - 2);
  return mixColors(SCALE[below], SCALE[below + 1], position - below);
}

// A coloring assigns a color to every node of every run: `bins[run][row]` is an index into `colors`.
// `entries` is the legend of a category, with a marker each; `low` and `high` are the ends of a numeric scale.
function colorBy(runs, columnName) {
  const columns = runs.map((run) => columnNamed(run, columnName));
  if (!columns.some(Boolean)) return colorUniformly(runs);
  const { unit } = columns.find(Boolean);
  const numeric = columns.every((column) => !column || (column.kind === "number" && column.unit === unit));
  return numeric ? colorNumbers(runs, columns) : colorCategories(runs, columns);
}

function colorUniformly(runs) {
  return { kind: "uniform", entries: [], colors: [SINGLE_COLOR], bins: runs.map((run) => new Uint8Array(run.n)) };
}

function groupMark(bin) {
  return { color: PALETTE[bin % PALETTE.length], marker: MARKERS[Math.floor(bin / PALETTE.length) % MARKERS.length] };
}

function colorCategories(runs, columns) {
  // The clusters of several runs have different names, but share their numbers and colors.
  const labelOf = (value) => (runs.length > 1 ? value : groupLabel(runs[0], columns[0], value));
  const ofAll = runs.length === 1 ? columns[0]?.all : null; // of a sample: the values of all nodes
  const sizes = ofAll ? new Map(ofAll.values.map((value, code) => [value, ofAll.sizes[code]])) : valueSizes(runs, columns);
  const nValues = sizes.size + (ofAll?.rarer ?? 0);
  const tooMany = nValues > MAX_GROUPS;
  let values = Array.from(sizes.keys());
  if (tooMany) values = values.sort((a, b) => sizes.get(b) - sizes.get(a)).slice(0, MAX_GROUPS);
  const entries = values.map((value, bin) => ({ label: labelOf(value), ...groupMark(bin), size: 0 }));
  if (tooMany)
    entries.push({ label: `${formatCount(nValues - values.length)} others`, color: OTHER_COLOR, size: 0 });
  entries.push({ label: "no value", color: MISSING_COLOR, size: 0 });
  const binOf = new Map(values.map((value, bin) => [value, bin]));
  const bins = runs.map((run, index) => categoryBins(run, columns[index], binOf, entries.length));
  for (const runBins of bins) for (const bin of runBins) entries[bin].size++;
  if (ofAll) setSizes(entries, values, sizes, ofAll.missing, runs[0].sample.total);
  const markers = entries.map(({ marker }) => marker ?? MARKERS[0]);
  return { kind: "category", entries, colors: entries.map(({ color }) => color), markers, bins, binOf };
}

// The legend of a sample counts all nodes.
function setSizes(entries, values, sizes, nMissing, total) {
  values.forEach((value, bin) => (entries[bin].size = sizes.get(value)));
  const nOthers = total - nMissing - values.reduce((sum, value) => sum + sizes.get(value), 0);
  if (entries.length > values.length + 1) entries[values.length].size = nOthers;
  entries[entries.length - 1].size = nMissing;
}

// The number of nodes with each value, over all runs.
function valueSizes(runs, columns) {
  const sizes = new Map();
  columns.forEach((column, index) => {
    if (!column) return;
    for (const value of column.values ?? []) sizes.set(value, sizes.get(value) ?? 0);
    for (let row = 0; row < runs[index].n; row++) {
      const value = cellText(column, row);
      if (value !== null) sizes.set(value, (sizes.get(value) ?? 0) + 1);
    }
  });
  return sizes;
}

// The last bin holds the nodes without a value, the one before it the values grouped as "others".
function categoryBins(run, column, binOf, nBins) {
  const bins = new Uint8Array(run.n).fill(nBins - 1);
  for (let row = 0; column && row < run.n; row++) {
    const value = cellText(column, row);
    if (value !== null) bins[row] = binOf.get(value) ?? nBins - 2;
  }
  return bins;
}

function colorNumbers(runs, columns) {
  const ofAll = columns[0]?.all; // of a sample: the range of all nodes
  const { low, high, clippedLow, clippedHigh } = ofAll
    ? clippedRange(ofAll.min, ofAll.max, ofAll.low, ofAll.high)
    : scaleRange(columns.flatMap((column) => (column ? [column.numbers] : [])));
  const colors = Array.from({ length: SCALE_STEPS }, (_, step) => scaleColor(step / (SCALE_STEPS - 1)));
  const bins = runs.map((run, index) => {
    const numbers = columns[index]?.numbers;
    return Uint8Array.from({ length: run.n }, (_, row) => {
      const number = numbers ? numbers[row] : NaN;
      if (Number.isNaN(number)) return SCALE_STEPS;
      return Math.round(Math.min(Math.max((number - low) / (high - low || 1), 0), 1) * (SCALE_STEPS - 1));
    });
  });
  const { unit } = columns.find(Boolean); // of dates and times
  const scale = { low, high, clippedLow, clippedHigh, unit };
  return { kind: "number", entries: [], colors: [...colors, MISSING_COLOR], bins, ...scale };
}

function scaleRange(arrays) {
  const sorted = Float64Array.from(
    arrays.flatMap((numbers) => Array.from(numbers)).filter((number) => !Number.isNaN(number)),
  ).sort();
  if (!sorted.length) return { low: 0, high: 0, clippedLow: false, clippedHigh: false };
  const [low, high] = SCALE_QUANTILES.map((share) => sorted[Math.round(share * (sorted.length - 1))]);
  return clippedRange(sorted[0], sorted[sorted.length - 1], low, high);
}

function clippedRange(min, max, low, high) {
  if (low === high) return { low: min, high: max, clippedLow: false, clippedHigh: false };
  return { low, high, clippedLow: low > min, clippedHigh: high < max };
}
