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
  const run = {
    ...raw,
    index,
    x: decodeArray(raw.projection.x),
    y: decodeArray(raw.projection.y),
    ids: decodeIds(raw.ids),
    columns: raw.columns.map((column) => (raw.sample ? growableColumn(decodeColumn(column)) : decodeColumn(column))),
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
    density: raw.sample && decodeDensity(raw.sample.density), // of the nodes that pass the filters
    fullDensity: null, // of all nodes, set below
    view: null, // of a sample: the filtered nodes
    offMap: new Set(), // of a sample: rows that are no points; in the explorer those that only a filter asked for
    serverRows: raw.sample && Array.from(decodeArray(raw.sample.rows)), // of a sample: the row of each node on the server
    pageRows: null, // of a sample: the reverse, set below
    foundNames: new Map(), // of a sample: id → name of found nodes
    nameColumn: null, // the column of names shown beside the ids, set below
    rows: null, // id → row, built by rowOf
  };
  run.nameColumn = run.columns.find(({ role }) => role === "name") ?? null;
  run.fullDensity = run.density;
  if (raw.sample) run.pageRows = new Map(run.serverRows.map((serverRow, row) => [serverRow, row]));
  for (let row = raw.sample?.points ?? run.n; row < run.n; row++) run.offMap.add(row);
  return run;
}

function decodeIds(raw) {
  return Array.isArray(raw) ? raw : Array.from(decodeArray(raw), String);
}

function decodeLists(raw) {
  return { starts: decodeArray(raw.starts), values: decodeArray(raw.values), full: decodeArray(raw.full) };
}

function decodeColumn(raw) {
  if (raw.kind === "number") return { ...raw, numbers: decodeArray(raw.numbers) };
  return { ...raw, codes: decodeArray(raw.codes), missingCode: raw.values.length };
}

// The text of a cell, or null if the value is missing.
function cellText(column, row) {
  if (column.kind === "number") {
    const number = column.numbers[row];
    return Number.isNaN(number) ? null : formatQuantity(number, column.unit);
  }
  return column.values[column.codes[row]] ?? null;
}

// A number, or a date or time given in milliseconds since 1970.
function formatQuantity(number, unit) {
  if (!unit || !Number.isFinite(number)) return formatNumber(number);
  const [day, time] = new Date(number).toISOString().split("T");
  return unit === "date" ? day : `${day} ${time.slice(0, time.startsWith("00", 6) ? 5 : 8)}`;
}

// What a training run counts: batches of rows, or passes over the graph.
function stepName(run) {
  return run.settings.batch_size ? "step" : "epoch";
}

function nodeName(run, row) {
  return run.nameColumn && cellText(run.nameColumn, row);
}

// The name of a node, or its id: the text beside a point, where there is little space.
function nodeTag(run, row) {
  return nodeName(run, row) ?? run.ids[row];
}

// The name of a node beside its id, or its id. Every other part of the page takes the text of a node from here.
function nodeLabel(run, row) {
  const name = nodeName(run, row);
  return name === null ? run.ids[row] : `${name} · ${run.ids[row]}`;
}

function labelOfId(runs, id) {
  const run = runs.find((candidate) => rowOf(candidate, id) !== undefined);
  if (run) return nodeLabel(run, rowOf(run, id));
  const name = runs.map(({ foundNames }) => foundNames.get(id)).find(Boolean);
  return name ? `${name} · ${id}` : id;
}

function columnNamed(run, name) {
  return run.columns.find((column) => column.name === name);
}

// The row of an id, or undefined.
function rowOf(run, id) {
  run.rows ??= new Map(run.ids.map((runId, row) => [runId, row]));
  return run.rows.get(id);
}

// Ids of nodes whose id or name equals the text, then starts with it, then contains it; case is ignored.
function searchIds(run, text) {
  const wanted = text.toLowerCase();
  const [equal, starting, containing] = [[], [], []];
  const groups = [equal, starting, containing, []];
  for (let row = 0; row < run.n; row++) {
    const ofName = matchGroup(nodeName(run, row) ?? "", wanted);
    const matches = groups[Math.min(matchGroup(run.ids[row], wanted), ofName)];
    if (matches.length < MAX_SUGGESTIONS) matches.push(run.ids[row]);
    if (starting.length === MAX_SUGGESTIONS && equal.length) break;
  }
  return [...equal, ...starting, ...containing].slice(0, MAX_SUGGESTIONS);
}

// 0: equal, 1: starts with the wanted text, 2: contains it, 3: does not.
function matchGroup(text, wanted) {
  const at = text.toLowerCase().indexOf(wanted);
  if (at < 0) return 3;
  return at > 0 ? 2 : text.length > wanted.length ? 1 : 0;
}

// Of a sample, only the points have stored neighbors.
function storedNeighbors(run, row) {
  const { k, index, similarity } = run.neighbors;
  return Array.from({ length: row * k < index.length ? k : 0 }, (_, rank) => ({
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

// A report answers from its own payload, the explorer from its server. `node` returns {row, facts, neighbors}, or null if
// the run does not have the node; each neighbor has its row, similarity and facts.
const STORED_SOURCE = {
  search: async (run, text) => searchIds(run, text),
  node: async (run, id) => {
    const row = rowOf(run, id);
    if (row === undefined) return null;
    const neighbors = storedNeighbors(run, row).map((found) => ({ ...found, facts: storedFacts(run, found.row) }));
    return { row, facts: storedFacts(run, row), neighbors };
  },
};

const SERVER_SOURCE = {
  search: async (run, text) => {
    const { ids, names } = await fetchJson("/api/search", { text });
    ids.forEach((id, index) => run.foundNames.set(id, names[index]));
    return ids;
  },
  node: async (run, id, k) => {
    const answer = await fetchJson("/api/neighbors", { id, k });
    return run.sample ? answerInPage(run, answer) : answer;
  },
};

function fetchJson(path, parameters = {}) {
  return answerOf(fetch(`${path}?${new URLSearchParams(parameters)}`));
}

function postJson(path, question) {
  return answerOf(post(path, question));
}

function post(path, question) {
  return fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(question),
  });
}

async function answerOf(request) {
  const response = await request;
  const body = await response.json();
  if (!response.ok) throw new Error(body.error);
  return body;
}

async function loadPayload() {
  const embedded = byId("payload");
  return embedded ? JSON.parse(embedded.textContent) : fetchJson("/payload.json");
}
