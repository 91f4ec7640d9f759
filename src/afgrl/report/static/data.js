"use strict";
// A run as the page knows it, opened from what Python packed.

const ARRAYS = {
  uint8: Uint8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  int32: Int32Array,
  float32: Float32Array,
  float64: Float64Array,
};
const SIMILARITY_SCALE = 32767;

function unpack(packed) {
  const text = atob(packed.base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new ARRAYS[packed.type](bytes.buffer);
}

function openRun(raw, place) {
  return {
    ...raw,
    place,
    x: unpack(raw.map.x),
    y: unpack(raw.map.y),
    ids: Array.isArray(raw.ids) ? raw.ids : Array.from(unpack(raw.ids), String),
    columns: raw.columns.map(openColumn),
    neighbors: raw.neighbors && {
      k: raw.neighbors.k,
      index: unpack(raw.neighbors.index),
      similarity: unpack(raw.neighbors.similarity),
    },
    rows: null,
  };
}

function openColumn(raw) {
  if (raw.kind === "number") return { ...raw, numbers: unpack(raw.numbers) };
  return { ...raw, codes: unpack(raw.codes) };
}

// The text of a cell, or null where there is no value.
function cellText(column, row) {
  if (column.kind === "number") {
    const number = column.numbers[row];
    return Number.isNaN(number) ? null : figure(number);
  }
  return column.values[column.codes[row]] ?? null;
}

function columnNamed(run, name) {
  return run.columns.find((column) => column.name === name);
}

// The row of an id, or undefined. The table of all ids is made when it is first needed.
function rowOf(run, id) {
  run.rows ??= new Map(run.ids.map((own, row) => [own, row]));
  return run.rows.get(id);
}

// Ids that are, begin with or hold a text, in this order.
function findIds(run, text, most) {
  const wanted = text.toLowerCase();
  const found = [[], [], []];
  for (const id of run.ids) {
    const at = id.toLowerCase().indexOf(wanted);
    if (at < 0) continue;
    const rank = at > 0 ? 2 : id.length > wanted.length ? 1 : 0;
    if (found[rank].length < most) found[rank].push(id);
    if (found[1].length === most && found[0].length) break;
  }
  return found.flat().slice(0, most);
}

function storedNeighbors(run, row) {
  const { k, index, similarity } = run.neighbors;
  return Array.from({ length: k }, (_, place) => ({
    row: index[row * k + place],
    similarity: similarity[row * k + place] / SIMILARITY_SCALE,
  }));
}

// Where answers about nodes come from: the file itself, or the server that made the page.
const STORED = {
  find: async (run, text) => findIds(run, text, 12),
  nearest: async (run, row) => storedNeighbors(run, row),
};

const SERVER = {
  find: async (run, text) => (await ask("/api/search", { text })).ids,
  nearest: async (run, row, k) => (await ask("/api/neighbors", { id: run.ids[row], k })).neighbors,
};

async function ask(path, parameters = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

async function loadPayload() {
  const inside = byId("payload");
  return inside ? JSON.parse(inside.textContent) : ask("/payload.json");
}
