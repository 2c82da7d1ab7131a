// Many nodes: what each covers and lacks, how much of the time its GPUs had work, and what stands out there.

import { get } from "./api.js";
import { by, el, refill } from "./dom.js";
import { count, duration, percent } from "./format.js";

const SHOWN = 200; // Nodes; of more, a part of the name finds the rest.
const SILENT_NS = 60e9; // A node that is that much behind the newest is told as a lack.

const TITLES = [
  ["node"], ["GPUs"], ["with work, of their time", "the part of the time that was recorded in which any tenant had work there"],
  ["recorded"], ["lacks"], ["stands out"],
];

export class Fleet {
  constructor(findings) {
    this.findings = findings;
    this.rows = null;
    this.words = "Looking at each node …";
    this.filter = el("input", { type: "search", placeholder: "part of a name", "aria-label": "Show nodes with this in their name", oninput: () => this.fill() });
    this.head = el("p", { role: "status" });
    this.table = el("div", {});
    refill(by("fleet"), el("header", {}, el("h2", {}, "Nodes"), this.head, this.filter), this.table);
  }

  show(status) {
    this.nodes = status.nodes;
    this.fill();
  }

  async ask() {
    try {
      const got = await get("fleet");
      this.rows = merged(got);
      this.words = got.coverage.truncated ? `the first ${got.coverage.rows.length} that were recorded` : "";
    } catch (error) {
      this.words = error.message;
    }
    this.fill();
  }

  fill() {
    const wanted = this.filter.value.trim().toLowerCase();
    const found = this.nodes.filter((name) => name.toLowerCase().includes(wanted)).map((name) => this.told(name));
    found.sort((one, other) => other.weight - one.weight || (one.name < other.name ? -1 : 1));
    const rest = found.length - SHOWN;
    this.head.textContent = [`${count(found.length)} of ${count(this.nodes.length)}`, this.words, rest > 0 ? `${count(rest)} more have nothing to tell or come after these` : ""].filter(Boolean).join("; ");
    const heads = TITLES.map(([title, more], i) => el("th", { scope: "col", title: more, class: i === 1 || i === 3 ? "number" : null }, title));
    refill(this.table, el("table", { class: "grid" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...found.slice(0, SHOWN).map(line))));
  }

  /** All that is known of a node; `weight` puts those first that somebody should look at. */
  told(name) {
    const row = this.rows?.get(name) ?? {};
    const findings = (this.findings.got?.findings ?? []).filter((one) => one.nodes?.includes(name)).map((one) => one.title);
    if (row.slowdown) findings.push(`the same work takes ${row.slowdown.toFixed(2)} times as long as elsewhere${row.kernel_name ? `, mostly ${row.kernel_name}` : ""}`);
    const lacks = this.rows ? lacking(row) : [];
    return { name, row, findings, lacks, weight: 1000 * findings.length + lacks.length };
  }
}

function lacking(row) {
  if (row.recorded_ns === undefined && row.gpus === undefined) return ["no recording"];
  return [
    row.silent_ns > SILENT_NS ? `silent for ${duration(row.silent_ns)}` : null,
    row.lost ? `${count(row.lost)} events lost` : null,
    row.shed ? `${count(row.shed)} without a row` : null,
    row.holes ? `${count(row.holes)} times blind, up to ${duration(row.blind_ns ?? 0)}` : null,
  ].filter(Boolean);
}

function line({ name, row, findings, lacks }) {
  const link = new URLSearchParams({ node: name });
  const queued = row.share === undefined ? el("td", { class: "nothing" }, "–")
    : el("td", { class: "bar-cell", "--part": `${100 * row.share}%` }, percent(row.share));
  return el("tr", {},
    el("td", {}, el("a", { href: `#${link}`, title: "Open this node" }, name)),
    el("td", { class: "number" }, row.gpus === undefined ? "–" : String(row.gpus)), queued,
    el("td", { class: "number" }, row.recorded_ns ? duration(Number(row.recorded_ns)) : "–"),
    el("td", { class: lacks.length ? "said bad" : "said" }, lacks.join(", ")),
    el("td", { class: "said", title: findings.join("\n") }, findings[0] ?? "", findings.length > 1 ? ` and ${findings.length - 1} more` : ""));
}

/** The parts of the answer by node. */
function merged(got) {
  const found = new Map();
  for (const part of Object.values(got)) for (const row of part.rows ?? []) {
    const of = Object.fromEntries(part.columns.map((name, i) => [name, row[i]]));
    found.set(of.node, { ...found.get(of.node), ...of });
  }
  return found;
}
