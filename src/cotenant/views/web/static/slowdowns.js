// Who slows whom: a matrix of few tenants, a list of what is most sure among many.

import { el } from "./dom.js";

const FEW = 6; // Tenants that fit into a matrix.
const LISTED = 8;
const SURE = ["evidence", "maybe", "none"];
const WORDS = { evidence: "Evidence", maybe: "Maybe, too little to be sure", none: "No evidence" };

/** The pairs of tenants of whom enough was seen, as a table. */
export function slowdowns(rows, theme) {
  const known = rows.filter((row) => Number(row.slowdown) > 0);
  if (!known.length) return el("p", {}, "There is not enough time in which tenants ran alone and together to tell.");
  const names = [...new Set(known.flatMap((row) => [row.victim, row.aggressor]))].sort();
  return names.length <= FEW ? matrix(rows, names, theme) : list(known, theme);
}

function matrix(rows, names, theme) {
  const label = (name, scope) => el("th", { scope, title: name, "--own": theme.variable(name) }, el("i"), name);
  const cell = (victim, aggressor) => {
    if (victim === aggressor) return el("td", { class: "self" }, "·");
    const row = rows.find((one) => one.victim === victim && one.aggressor === aggressor);
    if (!(Number(row?.slowdown) > 0)) return el("td", { class: "none", title: row?.cause ?? "not enough to tell" }, "?");
    return factor(row);
  };
  return el("table", { class: "matrix" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "slowed ↓  by →"), ...names.map((name) => label(name, "col")))),
    el("tbody", {}, ...names.map((victim) => el("tr", {}, label(victim, "row"), ...names.map((other) => cell(victim, other))))));
}

/** The surest first, then those that take longest. */
function list(known, theme) {
  const order = (row) => SURE.indexOf(row.evidence ?? "none");
  const sorted = [...known].sort((one, other) => order(one) - order(other) || other.slowdown - one.slowdown);
  const told = sorted.filter((row) => row.evidence !== "none");
  if (!told.length) return el("p", {}, `No evidence in any of ${known.length} pairs of tenants.`);
  const who = (name) => el("td", { class: "who", title: name, "--own": theme.variable(name) }, el("i"), name);
  const more = told.length > LISTED ? el("p", {}, `and ${told.length - LISTED} more pairs`) : null;
  const heads = ["slowed", "by", "times as long"].map((title) => el("th", { scope: "col" }, title));
  const body = told.slice(0, LISTED).map((row) => el("tr", {}, who(row.victim), who(row.aggressor), factor(row)));
  return el("div", {}, el("table", { class: "matrix pairs" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...body)), more);
}

function factor(row) {
  const slow = Number(row.slowdown);
  const range = row.ci_low ? `${Number(row.ci_low).toFixed(2)} to ${Number(row.ci_high).toFixed(2)}` : "";
  const how = WORDS[row.evidence] ?? WORDS.none;
  const title = `${how}: ${row.victim} runs ${slow.toFixed(2)} times as long beside ${row.aggressor} (${range}; p ${Number(row.p).toPrecision(2)}; ${row.cause ?? "cause unknown"})`;
  const sure = row.evidence === "evidence";
  const heat = sure ? `${Math.min(42, 12 + Math.max(0, (slow - 1) * 40))}%` : "0%";
  const words = sure ? null : el("small", {}, row.evidence === "maybe" ? "maybe" : "no evidence");
  return el("td", { class: row.evidence ?? "none", "--heat": heat, title }, `${slow.toFixed(2)}×`, words);
}
