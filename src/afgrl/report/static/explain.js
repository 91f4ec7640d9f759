"use strict";
// Why two nodes are similar, and what differs, in the terms of the user's own columns, words and edges.

const MAX_SHARED = 3; // columns named for a pair of nodes
const MAX_DIFFERENT = 2;
const MAX_NAMED = 3; // shared words, and shared neighbors
// A column is shared if at most this share of the other nodes is as close to the node as its neighbor; a different one if
// at least the last share is.
const CLOSE = { category: 0.6, number: 0.25 };
const FAR = 0.6;
const MAX_COMPARED = 20_000; // rows; of larger runs every second, third … row

// {shared, different}: lists of texts.
function explainPair(run, row, facts, other) {
  const compared = run.columns.flatMap((column) => compareCells(run, column, row, other.row) ?? []);
  const close = compared.filter(({ share, kind }) => share <= CLOSE[kind]).sort((a, b) => a.share - b.share);
  const different = compared.filter(({ share }) => share >= FAR).sort((a, b) => b.share - a.share);
  return {
    shared: [
      ...linkTexts(run, row, facts, other),
      ...close.slice(0, MAX_SHARED).map(({ text }) => text),
      ...wordTexts(facts, other.facts),
    ],
    different: different.slice(0, MAX_DIFFERENT).map(({ text }) => text),
  };
}

// {kind, share, text}; the share of the other nodes that are as close to the first node in this column as the second one.
// Null if a value is missing, or if the column cannot tell (clusters, names, texts).
function compareCells(run, column, row, other) {
  const [own, others] = [cellText(column, row), cellText(column, other)];
  if (own === null || others === null || column.role === "cluster") return null;
  const name = truncate(column.name, 40);
  const text = own === others ? own : `${truncate(own, 40)} and ${truncate(others, 40)}`;
  const comparison = (share) => ({ kind: column.kind, share, text: `${name} ${truncate(text, 90)}` });
  if (column.kind === "number") {
    const { numbers } = column;
    const distance = Math.abs(numbers[row] - numbers[other]);
    return comparison(shareOfOthers(run, row, (i) => Math.abs(numbers[i] - numbers[row]) <= distance));
  }
  if (column.values.length > Math.max(2, run.n / 2)) return null;
  return comparison(own === others ? shareOfOthers(run, row, (i) => column.codes[i] === column.codes[row]) : 1);
}

function shareOfOthers(run, row, isAsClose) {
  const step = Math.ceil(run.n / MAX_COMPARED);
  let n = 0,
    nAsClose = 0;
  for (let i = 0; i < run.n; i += step) {
    if (i === row) continue;
    n++;
    if (isAsClose(i)) nAsClose++;
  }
  return nAsClose / Math.max(n, 1);
}

function linkTexts(run, row, facts, other) {
  const linked = facts.edges.includes(other.row) || other.facts.edges.includes(row);
  const own = new Set(facts.edges);
  const shared = other.facts.edges.filter((edge) => own.has(edge));
  const isCut = facts.edges.length < facts.degree || other.facts.edges.length < other.facts.degree;
  const names = shared.slice(0, MAX_NAMED).map((edge) => truncate(nodeTag(run, edge), 30));
  const count = `${isCut ? "at least " : ""}${plural(shared.length, "shared neighbor")}`;
  return [
    ...(linked ? ["linked by an edge"] : []),
    ...(shared.length ? [`${count} (${names.join(", ")}${shared.length > names.length ? ", …" : ""})`] : []),
  ];
}

// The words of a node are ordered by rarity, so the first shared ones say most.
function wordTexts(facts, otherFacts) {
  const others = new Set(otherFacts.words);
  const shared = facts.words.filter((word) => others.has(word));
  const more = shared.length > MAX_NAMED ? ` and ${formatCount(shared.length - MAX_NAMED)} more` : "";
  return shared.length ? [`${shared.slice(0, MAX_NAMED).map((word) => truncate(word, 40)).join(", ")}${more}`] : [];
}
