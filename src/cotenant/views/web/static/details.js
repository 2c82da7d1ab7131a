// What is under the pointer, and what was clicked.

import { get } from "./api.js";
import { by, el, later, refill } from "./dom.js";
import { bytes, count, duration, moment } from "./format.js";

const EMPTY = ["", null, undefined];

export class Details {
  constructor(view, theme, showSql) {
    this.view = view;
    this.theme = theme;
    this.showSql = showSql;
    this.tip = by("tip");
    this.card = el("section", { class: "card", id: "selected", hidden: true, "aria-label": "Selected" });
    this.asking = null;
    this.ask = later(110, (mark) => this.inside(mark));
  }

  hover(mark, event) {
    this.asking?.abort();
    this.over = mark;
    this.tip.hidden = !mark;
    if (!mark) return;
    this.describe(mark);
    const box = this.tip.parentElement.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left + 16, event.clientY - box.top + 18];
    this.tip.style.left = `${Math.max(8, Math.min(x, box.width - this.tip.offsetWidth - 12))}px`;
    this.tip.style.top = `${y + this.tip.offsetHeight > box.height - 8 ? y - this.tip.offsetHeight - 34 : y}px`;
    if (!mark.slice) this.ask(mark);
  }

  describe(mark, names = null) {
    const who = el("p", { class: "who", "--own": this.theme.variable(mark.tenant) }, el("i"), el("b", {}, mark.tenant));
    const when = `${moment(this.view.absolute(mark.at), mark.length < 1e6 ? 9 : 3)} UTC`;
    if (mark.slice) {
      const lasts = mark.length ? el("b", {}, duration(mark.length)) : "no duration";
      refill(this.tip, el("h3", {}, mark.name), who, el("p", {}, lasts, ` at ${when}`));
      return;
    }
    refill(this.tip, who,
      el("p", {}, el("b", {}, count(mark.events)), mark.events === 1 ? " event in " : " events in ", duration(mark.length), `, `,
        el("b", {}, `${Math.min(100, mark.inCalls / mark.length * 100).toFixed(mark.inCalls / mark.length < 0.1 ? 1 : 0)} %`), " of it inside the call"),
      el("p", {}, `from ${when}`), names ?? el("p", {}, `longest: ${mark.name}`));
  }

  /** Asks what a cell is made of, once the pointer rests on it. */
  async inside(mark) {
    if (this.over !== mark) return;
    this.asking = new AbortController();
    try {
      const query = { lane: mark.lane, from: this.view.absolute(mark.at), to: this.view.absolute(mark.at + mark.length) };
      const got = await get("cell", query, this.asking.signal);
      if (this.over !== mark) return;
      const rows = got.rows.map(([name, events, total]) => el("tr", {}, el("td", {}, name), el("td", {}, `${count(events)} ×`), el("td", {}, duration(Number(total)))));
      this.describe(mark, el("table", {}, el("tbody", {}, ...rows)));
    } catch {
      // The pointer has moved on, or the store has: the tooltip says what it knows.
    }
  }

  async click(mark) {
    if (!mark) return this.view.select(null);
    if (mark.slice) return this.view.select({ family: mark.family, at: this.view.absolute(mark.at), tid: mark.tid, tenant: mark.tenant });
    const query = { lane: mark.lane, from: this.view.absolute(mark.at), to: this.view.absolute(mark.at + mark.length) };
    this.show(`${count(mark.events)} events of ${mark.tenant}`, mark.tenant, null, await get("cell", query));
  }

  /** Shows the row of the selected event. */
  async refresh() {
    const { selected } = this.view;
    if (!selected) {
      this.card.hidden = true;
      return;
    }
    const got = await get("event", { family: selected.family, at: selected.at, tid: selected.tid });
    const row = got.rows[0];
    if (!row) return this.show("This event is no longer in the store", null, null, got);
    const of = Object.fromEntries(got.columns.map((name, i) => [name, row[i]]));
    this.show(of.kernel_name ?? `${selected.family} ${of.op ?? ""}`, of.tenant, of, got);
    by("said").textContent = `${of.kernel_name ?? of.op}, ${of.tenant}, ${duration(Number(of.duration_ns ?? 0))}`;
  }

  show(title, tenant, row, got) {
    this.card.hidden = false;
    const list = row
      ? Object.entries(row).filter(([, value]) => !EMPTY.includes(value)).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, told(name, value))])
      : got.rows.flatMap(([name, events, total]) => [el("dt", {}, `${count(events)} ×, ${duration(Number(total))}`), el("dd", {}, name)]);
    refill(this.card,
      el("header", {}, el("h2", {}, "Selected"),
        el("button", { type: "button", onclick: () => this.showSql(got.sql, true) }, "Open in SQL"),
        el("button", { type: "button", "aria-label": "Close", onclick: () => this.view.select(null) }, "×")),
      el("h3", { "--own": this.theme.variable(tenant) }, title),
      el("dl", {}, ...list),
      el("pre", { "aria-label": "SQL of this event" }, got.sql));
    this.card.scrollIntoView({ block: "nearest" });
  }
}

function told(name, value) {
  if (name === "timestamp_ns") return `${value}  (${moment(BigInt(value), 9)} UTC)`;
  if (name.endsWith("_ns") && typeof value === "number") return `${count(value)}  (${duration(value)})`;
  if (name === "bytes" || name.endsWith("_bytes")) return `${count(value)}  (${bytes(value)})`;
  return String(value);
}
