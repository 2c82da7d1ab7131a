// Tiles of the timeline: fetched as they come into view, kept, and drawn coarser until they are here.

import { get } from "./api.js";

const MOST_KEPT = 160;
const AT_ONCE = 2; // The server has other things to do.
const SUB_ROWS = 6;
const PATIENCE = 4; // A tile that has grown is asked for again after this many times what it took.

export class Tiles {
  constructor(view, cells, arrived) {
    this.view = view;
    this.cells = cells;
    this.arrived = arrived;
    this.kept = new Map();
    this.waiting = new Map();
    this.running = 0;
    this.wanted = [];
  }

  /** The cell that is at least `ns` long, a power of two. */
  static cell(ns) { return 2 ** Math.max(0, Math.ceil(Math.log2(ns))); }

  key(cell, index) { return `${cell}/${index}`; }

  /** Tiles that cover a time at a cell size; what is missing is added to `wanted`. */
  covering(start, end, cell, wanted) {
    const width = cell * this.cells;
    const first = Math.max(0, Math.floor(Math.max(start, this.view.first) / width));
    const last = Math.floor(Math.min(end, this.view.last) / width);
    const found = [];
    for (let index = first; index <= last; index++) {
      const key = this.key(cell, index);
      const tile = this.kept.get(key);
      if (tile) {
        this.kept.delete(key);
        this.kept.set(key, tile);
      }
      if (!tile || due(tile)) wanted.push({ cell, index, key });
      found.push({ tile: tile ?? this.coarser(cell, index), start: index * width, end: (index + 1) * width });
    }
    return found;
  }

  /** Something that is here already and covers the tile: a larger one, if there is one. */
  coarser(cell, index) {
    for (let step = 1; step < 14; step++) {
      const tile = this.kept.get(this.key(cell * 2 ** step, Math.floor(index / 2 ** step)));
      if (tile) return tile;
    }
    return null;
  }

  /** Asks for what is wanted, a few at a time, the first first; lets go of what no longer is. */
  fetch(wanted = this.wanted) {
    this.wanted = wanted.filter(({ key }) => !this.kept.has(key) || due(this.kept.get(key)));
    const inView = new Set(this.wanted.map((one) => one.key));
    for (const [key, abort] of this.waiting) if (!inView.has(key)) abort.abort();
    for (const { cell, index, key } of this.wanted) {
      if (this.running >= AT_ONCE) return;
      if (!this.waiting.has(key)) this.load(cell, index, key);
    }
  }

  async load(cell, index, key) {
    const abort = new AbortController();
    this.waiting.set(key, abort);
    this.running++;
    const start = index * cell * this.cells;
    const began = performance.now();
    try {
      const got = await get("tile", { from: this.view.absolute(start), cell }, abort.signal);
      const now = performance.now();
      this.kept.set(key, { ...prepared(got, start, cell), due: now + (now - began) * PATIENCE });
      while (this.kept.size > MOST_KEPT) this.kept.delete(this.kept.keys().next().value);
      this.arrived(null, got.lanes);
    } catch (error) {
      if (error.name !== "AbortError") {
        this.arrived(error);
        await new Promise((done) => setTimeout(done, 1000));
      }
    } finally {
      this.waiting.delete(key);
      this.running--;
      this.fetch();
    }
  }

  /** The store has grown: what reaches beyond `time` is fetched again. */
  outdate(time) {
    for (const tile of this.kept.values()) if (tile.end >= time) tile.stale = true;
  }
}

const due = (tile) => tile.stale && performance.now() > tile.due;

/** A tile by lanes: `lanes.get(id)` has typed columns of its cells and slices. */
function prepared(got, start, cell) {
  const lanes = new Map();
  const lane = (id) => {
    let found = lanes.get(id);
    if (!found) lanes.set(id, (found = { cells: [], slices: [], depth: 1 }));
    return found;
  };
  got.cell_lane.forEach((id, i) => lane(id).cells.push(i));
  got.lane.forEach((id, i) => lane(id).slices.push(i));
  for (const one of lanes.values()) {
    one.cells = {
      at: Int32Array.from(one.cells, (i) => got.cell[i]),
      events: Float64Array.from(one.cells, (i) => got.cell_events[i]),
      inCalls: Float64Array.from(one.cells, (i) => got.cell_in_calls_ns[i]),
      name: Int32Array.from(one.cells, (i) => got.cell_name[i]),
    };
    one.slices = {
      at: Float64Array.from(one.slices, (i) => start + got.at_ns[i]),
      length: Float64Array.from(one.slices, (i) => got.duration_ns[i]),
      name: Int32Array.from(one.slices, (i) => got.name[i]),
      tid: Int32Array.from(one.slices, (i) => got.tid[i]),
    };
    one.row = stacked(one);
  }
  return { start, cell, end: start + cell * 1024, lanes, names: got.names, raw: got.raw, stale: false };
}

/** Slices that overlap go below each other, so that none hides another. */
function stacked(one) {
  const { at, length } = one.slices;
  const rows = new Uint8Array(at.length);
  const ends = [];
  for (let i = 0; i < at.length; i++) {
    let row = 0;
    while (row < ends.length && ends[row] > at[i] && row < SUB_ROWS - 1) row++;
    ends[row] = at[i] + length[i];
    rows[i] = row;
    one.depth = Math.max(one.depth, row + 1);
  }
  return rows;
}
