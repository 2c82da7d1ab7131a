// The timeline: frames, the mouse, and what lies under it.

import { Painter, GUTTER, RULER, fitted } from "./paint.js";
import { rowsOf } from "./rows.js";
import { Tiles } from "./tiles.js";
import { WHOLE } from "./view.js";
import { get } from "./api.js";
import { by, later } from "./dom.js";


const FOLLOWING = 3000; // ms between looks at the GPU in a view that never settles.

export class Timeline {
  constructor(view, theme, said) {
    this.view = view;
    this.said = said; // {failed(error), lanes(count), hover(mark), click(mark)}
    this.canvas = by("lanes");
    this.small = by("minimap");
    this.scroll = 0;
    this.status = null;
    this.layout = { rows: [], height: 0 };
    this.painter = new Painter(theme, view, (id) => this.status.lanes[id]?.tenant);
    this.frames = []; // How long each took to paint; the last few hundred.
    this.marks = 0;
    this.painted = false;
    this.strip = null; // When each tenant had events, if there are too many to read: {start, cell, tenants}.
    this.nextStrip = 0;
    this.queued = null; // When each tenant had work on a GPU: {start, end, tenants}.
    this.settle = later(250, () => this.askQueued());
    this.due = false;
    new ResizeObserver(() => {
      this.arrange();
      this.paint();
    }).observe(this.canvas);
    view.addEventListener("change", (event) => {
      if (event.detail === "tenants") this.arrange();
      if (event.detail === "time") this.settle();
      this.paint();
    });
    this.listen();
  }

  open(status) {
    this.status = status;
    this.tiles ??= new Tiles(this.view, status.cells, (error, lanes) => this.arrived(error, lanes));
    this.arrange();
    this.paint();
    this.askStrip();
  }

  /** Asks what was in flight in the time on screen; it takes a while, so it is drawn when it comes. */
  async askQueued() {
    const { view } = this;
    const [start, end] = [Math.max(view.start, view.first), Math.min(view.end, view.last)];
    this.asking?.abort();
    this.asking = new AbortController();
    if (this.loading) return this.settle();
    if (view.follow && performance.now() < this.next) return;
    this.next = performance.now() + FOLLOWING;
    if (end - start < 2) return;
    try {
      const got = await get("queued", { from: view.absolute(start), to: view.absolute(end) }, this.asking.signal);
      if (got.tenants) this.queued = { start: Math.round(start), end: Math.round(end), tenants: got.tenants, nodes: got.nodes };
      this.paint();
    } catch (error) {
      if (error.name !== "AbortError") this.said.failed(error);
    }
  }

  /** Whether there is too much to read all of it while somebody waits. */
  get large() { return this.status.newest_ns !== null; }

  /** Asks when each tenant had events, over all of a large store. */
  async askStrip() {
    const { view, status } = this;
    if (!this.large || this.stripped === status.version || performance.now() < this.nextStrip) return;
    this.stripped = status.version;
    this.nextStrip = performance.now() + FOLLOWING;
    const start = view.first;
    try {
      const got = await get("strip", { from: view.absolute(start), to: view.absolute(view.last + 1) });
      this.strip = { start, cell: got.cell_ns, tenants: got.tenants };
      this.paint();
    } catch (error) {
      this.said.failed(error);
    }
  }

  /** Whether what is on screen is still on its way: everything else can wait for it. */
  get loading() {
    return !this.painted || this.due || this.tiles.running > 0 || this.tiles.wanted.length > 0;
  }

  arrived(error, lanes) {
    if (error) this.said.failed(error);
    else if (lanes > this.status.lanes.length) this.said.lanes(lanes);
    this.paint();
  }

  arrange() {
    if (this.status) this.layout = rowsOf(this.status, this.view, this.canvas.clientHeight - RULER, (name) => this.painter.theme.known(name));
  }

  paint() {
    if (this.due || !this.tiles) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      const began = performance.now();
      this.frame();
      this.frames.push(performance.now() - began);
      if (this.frames.length > 600) this.frames.shift();
    });
  }

  frame() {
    const { view, painter, tiles } = this;
    const frame = fitted(this.canvas);
    const room = Math.max(frame.width - GUTTER, 50);
    const wanted = []; // What is on screen comes first; the strip above it can wait.
    this.parts = tiles.covering(view.start, view.end, Tiles.cell(view.span / room), wanted);
    const whole = (view.last - view.first) * WHOLE;
    const overview = this.large ? [] : tiles.covering(view.first, view.last, Tiles.cell(whole / room), wanted);
    tiles.fetch(wanted);
    const most = Math.max(0, this.layout.height + RULER + 12 - frame.height);
    this.scroll = Math.min(Math.max(this.scroll, 0), most);
    const selected = view.selected && { tid: view.selected.tid, time: view.relative(view.selected.at) };
    this.marks = painter.lanes(frame.pen, frame, { ...this.layout, scroll: this.scroll, queued: this.queued }, this.parts, selected);
    if (this.marks) this.painted ||= performance.now(); // Since the page was opened.
    const strip = fitted(this.small);
    const shown = this.status.tenants.map((one) => one.name).filter((name) => !view.off.has(name));
    painter.minimap(strip.pen, strip, shown, overview, this.strip);
  }

  /** The middle of the stretch in which these had most work on a GPU at once; null if never. */
  together(names) {
    const own = names.map((name) => this.queued?.tenants[name]).filter(Boolean);
    if (!own.length) return null;
    const step = (this.queued.end - this.queued.start) / own[0].length;
    const both = Array.from({ length: own[0].length }, (_, i) => Math.min(...own.map((parts) => parts[i])));
    const wide = Math.max(1, Math.round(both.length / 10));
    let [best, most] = [-1, 0];
    for (let i = 0, sum = 0; i < both.length; i++) {
      sum += both[i] - (both[i - wide] ?? 0);
      if (sum > most) [best, most] = [i, sum];
    }
    return best < 0 ? null : this.queued.start + (best + 1 - wide / 2) * step;
  }

  time(x) {
    const room = this.canvas.clientWidth - GUTTER;
    return this.view.start + ((x - GUTTER) / room) * this.view.span;
  }

  rowAt(y) {
    const inside = y - RULER + this.scroll;
    return y < RULER ? null : this.layout.rows.find((row) => inside >= row.y && inside < row.y + row.height);
  }

  /** The slice or cell at a point of the canvas, or null. */
  markAt(x, y) {
    const row = this.rowAt(y);
    if (!row?.lanes.size || x < GUTTER) return null;
    const time = this.time(x);
    const slack = this.view.span / (this.canvas.clientWidth - GUTTER) * 2.5;
    const part = (this.parts ?? []).find((one) => time >= one.start && time < one.end);
    if (!part?.tile) return null;
    const inside = (y - RULER + this.scroll - row.y - 2) / (row.height - 4);
    let best = null;
    for (const id of row.lanes) {
      const lane = part.tile.lanes.get(id);
      if (!lane) continue;
      best = nearer(best, sliceAt(part.tile, lane, id, time, slack, inside));
      if (!best) best = cellAt(part.tile, lane, id, time);
    }
    return best && { ...best, tenant: this.status.lanes[best.lane].tenant, family: this.status.lanes[best.lane].family };
  }

  /** The next or previous slice of the selected one's lane, or the first on screen. */
  neighbour(step) {
    const found = [];
    for (const row of this.layout.rows) for (const id of row.lanes) for (const part of this.parts ?? []) {
      const lane = part.tile?.lanes.get(id);
      if (!lane) continue;
      for (let i = 0; i < lane.slices.at.length; i++) {
        if (lane.slices.at[i] >= part.start && lane.slices.at[i] < part.end) {
          found.push({ ...sliceOf(part.tile, lane, id, i), tenant: row.tenant, family: this.status.lanes[id].family });
        }
      }
    }
    const { selected } = this.view;
    const now = selected && found.find((mark) => mark.tid === selected.tid && this.view.absolute(mark.at) === selected.at);
    if (!now) return found.find((mark) => mark.at >= this.view.start) ?? null;
    const lane = found.filter((mark) => mark.lane === now.lane).sort((a, b) => a.at - b.at);
    return lane[lane.indexOf(now) + step] ?? null;
  }

  listen() {
    const { canvas, small, view } = this;
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.offsetX, y: event.offsetY, start: view.start, scroll: this.scroll, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return this.said.hover(this.markAt(event.offsetX, event.offsetY), event);
      const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y];
      drag.moved ||= Math.abs(dx) + Math.abs(dy) > 4;
      if (!drag.moved) return;
      canvas.classList.add("dragging");
      view.follow = false;
      this.scroll = drag.scroll - dy;
      view.show(drag.start - (dx / (canvas.clientWidth - GUTTER)) * view.span, view.span);
      this.said.hover(null);
    });
    canvas.addEventListener("pointerup", (event) => {
      canvas.classList.remove("dragging");
      if (drag && !drag.moved) this.click(event);
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => this.said.hover(null));
    canvas.addEventListener("dblclick", (event) => view.zoom(0.25, this.time(event.offsetX)));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    const jump = (event) => {
      const room = small.clientWidth - GUTTER;
      const at = view.first + ((event.offsetX - GUTTER) / room) * (view.last - view.first);
      view.follow = false;
      view.show(at - view.span / 2, view.span);
    };
    small.addEventListener("pointerdown", (event) => {
      small.setPointerCapture(event.pointerId);
      jump(event);
    });
    small.addEventListener("pointermove", (event) => event.buttons && jump(event));
  }

  click(event) {
    const row = this.rowAt(event.offsetY);
    if (row?.kind === "node") return this.view.close(row.node);
    if (event.offsetX < GUTTER) {
      if (row?.kind === "tenant") this.view.fold(row.tenant);
      return;
    }
    this.said.click(this.markAt(event.offsetX, event.offsetY));
  }

  wheel(event) {
    event.preventDefault();
    const { view } = this;
    view.follow = false;
    if (event.offsetX < GUTTER) {
      this.scroll += event.deltaY;
      this.paint();
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      view.pan((event.deltaX || event.deltaY) / 1200);
    } else {
      view.zoom(Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 120) / 400), this.time(event.offsetX));
    }
    this.said.hover(null);
  }
}

function sliceOf(tile, lane, id, i) {
  const { at, length, name, tid } = lane.slices;
  return { lane: id, slice: true, at: at[i], length: length[i], name: tile.names[name[i]], tid: tid[i] };
}

function sliceAt(tile, lane, id, time, slack, inside) {
  const { at, length } = lane.slices;
  const row = Math.min(Math.floor(inside * lane.depth), lane.depth - 1);
  let best = null;
  let distance = slack;
  for (let i = 0; i < at.length; i++) {
    if (at[i] > time + slack) break;
    if (lane.row[i] !== row) continue;
    const away = time < at[i] ? at[i] - time : Math.max(0, time - at[i] - length[i]);
    if (away <= distance) {
      distance = away;
      best = i;
    }
  }
  return best === null ? null : { ...sliceOf(tile, lane, id, best), away: distance };
}

function cellAt(tile, lane, id, time) {
  const { at, events, inCalls, name } = lane.cells;
  const cell = Math.floor((time - tile.start) / tile.cell);
  const i = [cell, cell - 1, cell + 1].map((one) => at.indexOf(one)).find((one) => one >= 0);
  if (i === undefined) return null;
  const start = tile.start + at[i] * tile.cell;
  return { lane: id, slice: false, at: start, length: tile.cell, events: events[i], inCalls: inCalls[i], name: tile.names[name[i]] };
}

function nearer(one, other) {
  if (!one?.slice || !other) return other ?? one;
  return other.away < one.away ? other : one;
}
