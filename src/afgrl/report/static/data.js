"use strict";
// Decodes the payload of a run, and answers questions about its nodes.

const ARRAY_TYPES = {
  uint8: Uint8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  int32: Int32Array,
  float32: Float32Array,
  float64: Float64Array,
};
const SIMILARITY_SCALE = 32767; // as in payload.py
const MAX_SUGGESTIONS = 12;

function decodeArray(packed) {
  const text = atob(packed.base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new ARRAY_TYPES[packed.type](bytes.buffer);
}

// `index` is the position of the run in the page.
function decodeRun(raw, index) {
  return {
    ...raw,
    index,
    x: decodeArray(raw.projection.x),
    y: decodeArray(raw.projection.y),
    ids: Array.isArray(raw.ids) ? raw.ids : Array.from(decodeArray(raw.ids), String),
    columns: raw.columns.map(decodeColumn),
    neighbors: raw.neighbors && {
      k: raw.neighbors.k,
      index: decodeArray(raw.neighbors.index),
      similarity: decodeArray(raw.neighbors.similarity),
    },
    facts: raw.facts && {
      edges: decodeLists(raw.facts.edges),
      words: decodeLists(raw.facts.words),
      names: raw.facts.names,
    },
    rows: null, // id → row, built by rowOf
  };
}

function decodeLists(raw) {
  return { starts: decodeArray(raw.starts), values: decodeArray(raw.values), full: decodeArray(raw.full) };
}

function decodeColumn(raw) {
  if (raw.kind === "number") return { ...raw, numbers: decodeArray(raw.numbers) };
  return { ...raw, codes: decodeArray(raw.codes) };
}

// The text of a cell, or null if the value is missing.
function cellText(column, row) {
  if (column.kind === "number") {
    const number = column.numbers[row];
    return Number.isNaN(number) ? null : formatNumber(number);
  }
  return column.values[column.codes[row]] ?? null;
}

function columnNamed(run, name) {
  return run.columns.find((column) => column.name === name);
}

// The text by which a node is shown. Every part of the page takes it from here.
function nodeLabel(run, row) {
  return run.ids[row];
}

// The row of an id, or undefined.
function rowOf(run, id) {
  run.rows ??= new Map(run.ids.map((runId, row) => [runId, row]));
  return run.rows.get(id);
}

// Ids that equal the text, then ids that start with it, then ids that contain it; case is ignored.
function searchIds(run, text) {
  const wanted = text.toLowerCase();
  const [equal, starting, containing] = [[], [], []];
  for (const id of run.ids) {
    const at = id.toLowerCase().indexOf(wanted);
    if (at < 0) continue;
    const matches = at > 0 ? containing : id.length > wanted.length ? starting : equal;
    if (matches.length < MAX_SUGGESTIONS) matches.push(id);
    if (starting.length === MAX_SUGGESTIONS && equal.length) break;
  }
  return [...equal, ...starting, ...containing].slice(0, MAX_SUGGESTIONS);
}

function storedNeighbors(run, row) {
  const { k, index, similarity } = run.neighbors;
  return Array.from({ length: k }, (_, rank) => ({
    row: index[row * k + rank],
    similarity: similarity[row * k + rank] / SIMILARITY_SCALE,
  }));
}

// What a node can have in common with others: {degree, edges: rows, words: texts}.
function storedFacts(run, row) {
  const { edges, words, names } = run.facts;
  const list = ({ starts, values }) => Array.from(values.subarray(starts[row], starts[row + 1]));
  return { degree: edges.full[row], edges: list(edges), words: list(words).map((code) => names[code]) };
}

// A report answers from its own payload, the explorer from its server. `node` returns {facts, neighbors}; each neighbor
// has its row, similarity and facts.
const STORED_SOURCE = {
  search: async (run, text) => searchIds(run, text),
  node: async (run, row) => ({
    facts: storedFacts(run, row),
    neighbors: storedNeighbors(run, row).map((found) => ({ ...found, facts: storedFacts(run, found.row) })),
  }),
};

const SERVER_SOURCE = {
  search: async (run, text) => (await fetchJson("/api/search", { text })).ids,
  node: (run, row, k) => fetchJson("/api/neighbors", { id: run.ids[row], k }),
};

async function fetchJson(path, parameters = {}) {
  const response = await fetch(`${path}?${new URLSearchParams(parameters)}`);
  const body = await response.json();
  if (!response.ok) throw new Error(body.error);
  return body;
}

async function loadPayload() {
  const embedded = byId("payload");
  return embedded ? JSON.parse(embedded.textContent) : fetchJson("/payload.json");
}
