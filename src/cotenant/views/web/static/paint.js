// Painting: everything the canvases show is drawn here, and nothing is decided.

import { duration, moment } from "./format.js";

const NARROW = matchMedia("(max-width: 600px)").matches;
export const GUTTER = NARROW ? 118 : 190;
export const RULER = 26;
const FLOOR = 0.3; // Of a lane's height: what even the shortest call gets.
const LETTER = 6.7;
const THINNEST = 1.6; // Pixels that any slice gets.
const FACE = "Inter, 'Segoe UI', system-ui, 'DejaVu Sans', sans-serif";
const [SMALL, BOLD] = [`11px ${FACE}`, `600 12.5px ${FACE}`];

/** A canvas as many pixels as the screen has for it. */
export function fitted(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const pen = canvas.getContext("2d", { alpha: false });
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { pen, width, height };
}

export class Painter {
  constructor(theme, view, tenantOf) {
    this.theme = theme;
    this.view = view;
    this.tenantOf = tenantOf; // Lane id to tenant.
  }

  /** `parts` are tiles with the time that each is drawn for; returns how many marks there were. */
  lanes(pen, frame, layout, parts, selected) {
    const { theme } = this;
    pen.fillStyle = theme.panel;
    pen.fillRect(0, 0, frame.width, frame.height);
    this.grid(pen, frame);
    pen.save();
    pen.beginPath();
    pen.rect(0, RULER, frame.width, frame.height - RULER);
    pen.clip();
    let marks = 0;
    for (const row of layout.rows) {
      this.named = new Set();
      const y = RULER + row.y - layout.scroll;
      if (y > frame.height || y + row.height < RULER) continue;
      this.row(pen, frame, row, y, layout.queued);
      if (row.kind === "tenant" && !row.folded && layout.queued) this.inFlight(pen, frame, row, y, layout.queued);
      if (!row.lanes.size) continue;
      pen.save();
      pen.beginPath();
      pen.rect(GUTTER, y, frame.width - GUTTER, row.height);
      pen.clip();
      for (const part of parts) if (part.tile) marks += this.part(pen, frame, row, y, part, selected);
      pen.restore();
    }
    pen.restore();
    this.ruler(pen, frame);
    return marks;
  }

  /** Beside a tenant's name: how much of each moment it had work on a GPU. */
  inFlight(pen, frame, row, y, queued) {
    const parts = queuedParts(row, queued);
    if (!parts) return;
    const { view, theme } = this;
    const scale = (frame.width - GUTTER) / view.span;
    const step = (queued.end - queued.start) / parts.length;
    const [top, height] = [y + 5, row.height - 8];
    pen.save();
    pen.beginPath();
    pen.rect(GUTTER, y, frame.width - GUTTER, row.height);
    pen.clip();
    pen.fillStyle = theme.of(row.tenant);
    pen.globalAlpha = 0.42;
    parts.forEach((part, i) => {
      if (!part) return;
      const left = Math.floor(GUTTER + (queued.start + i * step - view.start) * scale);
      const right = Math.floor(GUTTER + (queued.start + (i + 1) * step - view.start) * scale);
      const tall = Math.max(1, height * part);
      pen.fillRect(left, top + height - tall, Math.max(right - left, 1), tall);
    });
    pen.restore();
  }

  /** The part of the time on screen in which a tenant had work on a GPU, in words that fit. */
  share(pen, row, queued) {
    const parts = !row.folded && queued && queuedParts(row, queued);
    if (!parts) return "";
    const share = parts.reduce((sum, part) => sum + part, 0) / parts.length;
    const said = `${share < 0.095 ? (share * 100).toFixed(1) : Math.round(share * 100)} %`;
    pen.font = BOLD;
    const name = pen.measureText(row.label).width;
    pen.font = SMALL;
    const fits = (words) => name + pen.measureText(words).width + 12 <= GUTTER - 33;
    return [`${said} in flight`, said].find(fits) ?? (NARROW ? "" : said);
  }

  /** A tenant's name and share, each as far as there is room. */
  heading(pen, row, y, queued) {
    const { theme } = this;
    const middle = y + row.height / 2 + 1.5;
    const said = this.share(pen, row, queued);
    pen.font = SMALL;
    pen.fillStyle = theme.quiet;
    pen.textAlign = "right";
    pen.fillText(said, GUTTER - 8, middle);
    pen.textAlign = "left";
    const taken = said ? pen.measureText(said).width + 8 : 0;
    pen.font = BOLD;
    pen.fillStyle = theme.ink;
    pen.fillText(row.folded ? "▸" : "▾", 11, middle);
    pen.fillText(fitting(pen, row.label, GUTTER - 33 - taken), 25, middle);
  }

  /** A node's name across the whole width: what follows is its. */
  node(pen, frame, row, y) {
    const { theme } = this;
    const middle = y + row.height / 2 + 2;
    pen.fillStyle = theme.raised;
    pen.fillRect(0, y + 3, frame.width, row.height - 4);
    pen.font = BOLD;
    pen.fillStyle = theme.ink;
    pen.fillText(`${row.folded ? "▸" : "▾"}  ${row.label}`, 11, middle);
    pen.font = SMALL;
    pen.fillStyle = theme.quiet;
    pen.textAlign = "right";
    pen.fillText(row.said, frame.width - 12, middle);
    pen.textAlign = "left";
  }

  row(pen, frame, row, y, queued) {
    const { theme } = this;
    pen.textBaseline = "middle";
    const middle = y + row.height / 2 + 0.5;
    if (row.kind === "tenant") {
      pen.fillStyle = theme.of(row.tenant);
      pen.fillRect(0, y + 3, 4, row.height - 3);
      return this.heading(pen, row, y, queued);
    }
    if (row.kind === "node") return this.node(pen, frame, row, y);
    pen.font = `11.5px ${FACE}`;
    if (row.kind === "title") {
      pen.fillStyle = theme.line;
      pen.fillRect(0, y + 2, frame.width, 1);
      pen.fillStyle = theme.quiet;
      pen.font = `600 11.5px ${FACE}`;
      pen.fillText(row.label, 11, middle + 1);
      return;
    }
    pen.fillStyle = theme.of(row.tenant);
    pen.fillRect(0, y, 4, row.height);
    pen.fillStyle = theme.quiet;
    pen.fillText(fitting(pen, row.label, GUTTER - 34), 25, middle);
    pen.globalAlpha = theme.name === "dark" ? 0.1 : 0.07;
    pen.fillStyle = theme.of(row.tenant);
    pen.fillRect(GUTTER, y + 1, frame.width - GUTTER, row.height - 2);
    pen.globalAlpha = 1;
  }

  part(pen, frame, row, y, part, selected) {
    const { view } = this;
    const scale = (frame.width - GUTTER) / view.span;
    const { tile } = part;
    const from = Math.max(part.start, view.start - 2 / scale);
    const to = Math.min(part.end, view.end + 2 / scale);
    const box = { pen, scale, y: y + 2, height: row.height - 4, from, to, row };
    let marks = 0;
    for (const id of row.lanes) {
      const lane = tile.lanes.get(id);
      if (!lane) continue;
      marks += this.cells(box, tile, lane);
      marks += this.slices(box, tile, lane, selected);
    }
    return marks;
  }

  cells({ pen, scale, y, height, from, to, row }, tile, lane) {
    const { at, inCalls } = lane.cells;
    if (!at.length) return 0;
    const { view } = this;
    const x0 = GUTTER + (tile.start - view.start) * scale;
    const step = tile.cell * scale;
    pen.fillStyle = this.theme.of(row.tenant);
    let marks = 0;
    for (let i = 0; i < at.length; i++) {
      const time = tile.start + at[i] * tile.cell;
      if (time + tile.cell < from || time >= to) continue;
      const left = Math.floor(x0 + at[i] * step);
      const right = Math.max(Math.floor(x0 + (at[i] + 1) * step), left + 1);
      const share = Math.min(1, inCalls[i] / tile.cell);
      const tall = Math.max(2, Math.round(height * (FLOOR + (1 - FLOOR) * Math.sqrt(share))));
      pen.fillRect(left, y + height - tall, right - left, tall);
      marks++;
    }
    return marks;
  }

  slices({ pen, scale, y, height, from, to, row }, tile, lane, selected) {
    const { at, length, name, tid } = lane.slices;
    const { view, theme } = this;
    const tall = height / lane.depth;
    const names = [];
    let marks = 0;
    for (let i = 0; i < at.length; i++) {
      // Each slice is drawn once: by the tile it begins in, or by the first one on screen.
      if (at[i] + length[i] < from || at[i] >= to) continue;
      const left = GUTTER + (Math.max(at[i], from - 4 / scale) - view.start) * scale;
      const right = GUTTER + (Math.min(at[i] + length[i], to) - view.start) * scale;
      const wide = Math.max(right - left, THINNEST);
      // What is narrower than a line is as low as it would be among others in a cell.
      const part = Math.min(1, (length[i] * scale) / THINNEST);
      const high = length[i] ? Math.max(2, tall * (FLOOR + (1 - FLOOR) * Math.sqrt(part))) : tall;
      const top = y + (lane.row[i] + 1) * tall - high;
      const colour = theme.tint(row.tenant, tile.names[name[i]]);
      pen.fillStyle = colour;
      if (wide > 5 && high > 7) rounded(pen, left, top, wide - 0.7, high, 2.5);
      else pen.fillRect(left, top, wide > 3 ? wide - 0.7 : wide, Math.max(high - 0.5, 1.5));
      if (selected && selected.tid === tid[i] && selected.time === at[i]) {
        pen.strokeStyle = theme.ink;
        pen.lineWidth = 2;
        pen.strokeRect(left - 1, top - 1, Math.max(wide, 3) + 1, high + 2);
      }
      // A slice across two tiles is drawn in parts, and named once.
      if (wide > 34 && tall > 10 && !this.named.has(`${at[i]} ${tid[i]}`)) {
        this.named.add(`${at[i]} ${tid[i]}`);
        names.push(i, left, wide, top, colour);
      }
      marks++;
    }
    this.labels(pen, tile, lane, names, tall);
    return marks;
  }

  labels(pen, tile, lane, names, tall) {
    pen.font = `${Math.min(11, tall - 3)}px ui-monospace, 'DejaVu Sans Mono', monospace`;
    pen.textBaseline = "middle";
    for (let n = 0; n < names.length; n += 5) {
      const [i, left, wide, top, colour] = names.slice(n, n + 5);
      const start = Math.max(left, GUTTER) + 5;
      const room = Math.floor((left + wide - start - 4) / LETTER);
      if (room < 3) continue;
      pen.fillStyle = this.theme.over(colour);
      pen.fillText(clipped(tile.names[lane.slices.name[i]], room), start, top + tall / 2 + 0.5);
    }
  }

  ticks(width) {
    const { view } = this;
    const aim = (view.span / (width - GUTTER)) * 115;
    const nice = [1, 2, 5, 10, 20, 50, 100, 200, 500].flatMap((n) => [n, n * 1e3, n * 1e6]);
    const steps = [...nice, 1e9, 2e9, 5e9, 1e10, 3e10, 6e10, 12e10, 3e11, 6e11, 18e11, 36e11].sort((a, b) => a - b);
    const step = steps.find((one) => one >= aim) ?? 864e11;
    // Ticks fall on whole steps of the clock, not of the recording.
    const shift = Number(view.origin % BigInt(Math.round(step)));
    const found = [];
    for (let time = Math.ceil((view.start + shift) / step) * step - shift; time < view.end; time += step) found.push(time);
    return { step, found };
  }

  grid(pen, frame) {
    const { found } = this.ticks(frame.width);
    const scale = (frame.width - GUTTER) / this.view.span;
    pen.fillStyle = this.theme.line;
    for (const time of found) pen.fillRect(Math.round(GUTTER + (time - this.view.start) * scale), RULER, 1, frame.height);
  }

  ruler(pen, frame) {
    const { theme, view } = this;
    pen.fillStyle = theme.panel;
    pen.fillRect(0, 0, frame.width, RULER);
    pen.fillStyle = theme.line;
    pen.fillRect(0, RULER - 1, frame.width, 1);
    pen.fillRect(GUTTER - 1, 0, 1, frame.height);
    const { step, found } = this.ticks(frame.width);
    const scale = (frame.width - GUTTER) / view.span;
    pen.font = SMALL;
    pen.textBaseline = "middle";
    const digits = step >= 1e9 ? 0 : step >= 1e6 ? 3 : 6;
    const base = found.length ? view.absolute(found[0]) : view.absolute(view.start);
    pen.fillStyle = theme.quiet;
    const fine = step < 1e3;
    const corner = fine ? `${moment(base, 9)} UTC` : `${moment(base, 0, true).slice(0, 10)} UTC`;
    pen.fillText(corner, 11, RULER / 2);
    for (const time of found) {
      const x = GUTTER + (time - view.start) * scale;
      const said = fine ? `+${duration(time - found[0])}` : moment(view.absolute(time), digits);
      pen.fillStyle = theme.faint;
      pen.fillRect(Math.round(x), RULER - 6, 1, 6);
      pen.fillStyle = theme.quiet;
      pen.fillText(said, x + 4, RULER / 2 - 1);
    }
  }

  /** The whole recording in a strip, with a frame around what is on screen. */
  minimap(pen, frame, tenants, parts, strip) {
    const { theme, view } = this;
    pen.fillStyle = theme.ground;
    pen.fillRect(0, 0, frame.width, frame.height);
    const scale = (frame.width - GUTTER) / Math.max(view.last - view.first, 1);
    const x = (time) => GUTTER + (time - view.first) * scale;
    const tall = (frame.height - 8) / Math.max(tenants.length, 1);
    const high = tall > 2 ? tall - 1 : tall; // With many tenants there is no room for gaps.
    tenants.forEach((tenant, place) => {
      pen.fillStyle = theme.of(tenant);
      for (const cell of strip?.tenants[tenant] ?? []) pen.fillRect(x(strip.start + cell * strip.cell), 4 + place * tall, Math.max(strip.cell * scale, 1), high);
      for (const { tile } of parts) {
        if (!tile) continue;
        for (const [id, lane] of tile.lanes) {
          if (this.tenantOf(id) !== tenant) continue;
          const { at } = lane.cells;
          const wide = Math.max(tile.cell * scale, 1);
          for (let i = 0; i < at.length; i++) pen.fillRect(x(tile.start + at[i] * tile.cell), 4 + place * tall, wide, high);
          const { at: from, length } = lane.slices;
          for (let i = 0; i < from.length; i++) pen.fillRect(x(from[i]), 4 + place * tall, Math.max(length[i] * scale, 1), high);
        }
      }
    });
    const [left, right] = [Math.max(x(view.start), GUTTER), Math.min(x(view.end), frame.width)];
    pen.globalAlpha = 0.62;
    pen.fillStyle = theme.ground;
    pen.fillRect(GUTTER, 0, left - GUTTER, frame.height);
    pen.fillRect(right, 0, frame.width - right, frame.height);
    pen.globalAlpha = 1;
    pen.strokeStyle = theme.accent;
    pen.lineWidth = 1.5;
    pen.strokeRect(left, 1, Math.max(right - left, 3), frame.height - 2);
    pen.fillStyle = theme.quiet;
    pen.font = SMALL;
    pen.textBaseline = "middle";
    pen.fillText("On screen", 11, frame.height / 2 - 8);
    pen.fillStyle = theme.ink;
    pen.font = BOLD;
    pen.fillText(duration(view.span), 11, frame.height / 2 + 8);
  }
}

/** When a row's tenant had work on a GPU: on the row's node, where there are several. */
const queuedParts = (row, queued) => row.node === null ? queued.tenants[row.tenant] : queued.nodes?.[row.node]?.[row.tenant];

function clipped(text, letters) {
  return text.length > letters ? `${text.slice(0, Math.max(letters - 1, 1))}…` : text;
}

/** As much of a name as fits into so many pixels: its ends, which tell names apart. */
function fitting(pen, text, room) {
  let said = text;
  for (let letters = text.length - 1; letters > 1 && pen.measureText(said).width > room; letters--) {
    const tail = Math.floor(letters * 0.6);
    said = `${text.slice(0, letters - tail)}…${text.slice(text.length - tail)}`;
  }
  return said;
}

function rounded(pen, x, y, width, height, radius) {
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
  pen.fill();
}
