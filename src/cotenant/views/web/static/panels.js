// Beside the timeline: who slows whom, and who does what in the time on screen.

import { get } from "./api.js";
import { el, lacking, later, refill } from "./dom.js";
import { brief, bytes, count, duration, percent } from "./format.js";
import { slowdowns } from "./slowdowns.js";

const FOLLOWING = 3000; // ms between the tables of a view that never settles.
const SETTLED = 350; // ms without a move before the tables are asked for again.

export class Panels {
  constructor(parent, page, showSql) {
    const { view, theme, details, timeline } = page;
    this.page = page;
    this.timeline = timeline;
    this.view = view;
    this.theme = theme;
    this.showSql = showSql;
    this.cards = {
      interference: card("Who slows whom"), tenants: card("Tenants"),
      kernels: card("Where time in CUDA goes"), collectives: card("Where time in NCCL goes"),
    };
    parent.append(details.card, ...Object.values(this.cards));
    for (const name of ["collectives", "interference"]) this.cards[name].hidden = true;
    this.settle = later(SETTLED, () => this.tables());
    view.addEventListener("change", ({ detail }) => detail !== "selection" && this.settle());
  }

  async tables() {
    if (this.timeline.loading) return this.settle();
    if (this.view.follow && performance.now() < this.next) return;
    this.next = performance.now() + FOLLOWING;
    this.asking?.abort();
    this.asking = new AbortController();
    const { view } = this;
    const query = { from: view.absolute(Math.max(view.start, view.first)), to: view.absolute(Math.min(view.end, view.last) + 1) };
    if (query.to <= query.from) return;
    try {
      const got = await get("tables", query, this.asking.signal);
      this.last = got;
      this.render();
    } catch (error) {
      if (error.name !== "AbortError") this.note(this.cards.tenants, error.message);
    }
  }

  render() {
    const got = this.last;
    if (!got) return;
    const shown = (rows) => rows.filter((row) => !this.view.off.has(row.tenant));
    this.tenants(inOrder(shown(records(got.tenants)), got.gpu_use ? records(got.gpu_use) : []), got.tenants);
    this.ranking("kernels", shown(records(got.kernels)), got.kernels, "kernel_name");
    this.ranking("collectives", shown(records(got.collectives)), got.collectives, "op");
    this.cards.collectives.hidden = !got.collectives.rows.length;
  }

  tenants(rows, got) {
    const columns = [
      ["gpu_share", "GPU", (share, row) => el("span", { title: row.gpu_time }, `${percent(share)}${row.gpu_guessed ? "?" : ""}`)],
      ["launches", "launches/s", brief], ["cuda_ns", "in CUDA", (ns) => percent(ns / 1e9)],
      ["nccl_ns", "in NCCL", (ns) => percent(ns / 1e9)], ["gpu_bytes", "memory", bytes],
      ["cpu_ns", "CPU", (ns) => percent(ns / 1e9)], ["wait_ns", "CPU wait", (ns) => percent(ns / 1e9)], ["disk_bytes", "disk", (n) => `${bytes(n)}/s`],
      ["net_bytes", "network", (n) => `${bytes(n)}/s`], ["retransmits", "retrans./s", brief], ["lost", "lost", count],
    ].filter(([name]) => rows.some((row) => row[name])).slice(0, 4);
    rows = rows.filter((row) => this.theme.known(row.tenant) || columns.some(([name]) => row[name] !== null));
    const head = el("tr", {}, el("th", {}, "tenant"), ...columns.map(([, title]) => el("th", { class: "number" }, title)));
    const body = rows.slice(0, 8).map((row) => el("tr", {}, this.who(row.tenant), ...columns.map(([name, , say]) =>
      row[name] === null ? el("td", { class: "number nothing" }, "–") : el("td", { class: "number" }, say(Number(row[name]), row)))));
    this.fill("tenants", got, el("table", { class: "grid" }, el("thead", {}, head), el("tbody", {}, ...body)));
  }

  ranking(name, rows, got, what) {
    const most = Math.max(...rows.map((row) => Number(row.total_ns ?? 0)), 1);
    const body = rows.slice(0, 9).map((row) => el("tr", {},
      this.who(row.tenant), el("td", { class: "name bar-cell", title: `${row[what]} (${row.tenant})`, "--own": this.theme.variable(row.tenant), "--part": `${(Number(row.total_ns ?? 0) / most) * 100}%` }, row[what]),
      el("td", { class: "number" }, `${brief(Number(row.calls))} ×`),
      el("td", { class: "number" }, duration(Number(row.total_ns ?? 0)))));
    const head = el("tr", {}, el("th", {}, "tenant"), el("th", {}, what === "op" ? "collective" : "kernel or call"), el("th", { class: "number" }, "calls"), el("th", { class: "number" }, "time"));
    this.fill(name, got, el("table", { class: "grid" }, el("thead", {}, head), el("tbody", {}, ...body)));
  }

  fill(name, got, ...content) {
    if (got.rows && !got.rows.length) content = [el("p", {}, "Nothing in this time.")];
    const parent = this.cards[name];
    refill(parent, el("header", {}, el("h2", {}, parent.dataset.title, " ", el("small", {}, parent.dataset.note ?? "on screen")),
      got.sql ? el("button", { type: "button", title: "Show the SQL behind this", onclick: () => this.showSql(got.sql, true) }, "SQL") : null),
    ...content, ...lacking(got, this.page.status));
  }

  note(parent, words) {
    refill(parent, el("header", {}, el("h2", {}, parent.dataset.title)), el("p", {}, words));
  }

  who(tenant) {
    return el("td", { class: "who", "--own": this.theme.variable(tenant), title: tenant }, el("i"), tenant);
  }

  async interference() {
    const parent = this.cards.interference;
    parent.dataset.note = "whole recording";
    try {
      const got = await get("interference");
      parent.hidden = Boolean(got.unknown) || !got.rows.length;
      if (!parent.hidden) this.fill("interference", got, slowdowns(records(got), this.theme));
    } catch (error) {
      parent.hidden = false;
      this.note(parent, error.message);
    }
  }
}

function card(title) {
  return el("section", { class: "card", "data-title": title, "aria-label": title }, el("header", {}, el("h2", {}, title)));
}

function records(got) {
  return got.rows.map((row) => Object.fromEntries(got.columns.map((name, i) => [name, row[i]])));
}

/** Tenants with what they used of their GPUs, in order of work, or of what is known of it. */
function inOrder(rows, used) {
  const by = new Map(used.map((row) => [row.tenant, row]));
  const known = (row) => Number(by.get(row.tenant)?.work_ns ?? by.get(row.tenant)?.gpu_time_low_ns ?? -1);
  const all = rows.map((row) => ({ ...row, ...by.get(row.tenant) }));
  return used.length ? all.sort((a, b) => known(b) - known(a)) : all;
}
