// The SQL box: questions to start from, any read-only SQL, and what the answer lacks.

import { get, sql } from "./api.js";
import { by, el, refill } from "./dom.js";
import { count } from "./format.js";

export class SqlBox {
  constructor() {
    this.text = by("text");
    by("ask").addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    by("fold").addEventListener("click", () => this.open(by("box").hidden));
    by("questions").addEventListener("change", (event) => {
      const question = this.questions[event.target.selectedIndex - 1];
      if (question) this.show(question.sql, true);
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run();
    });
    this.questions = [];
  }

  async learn() {
    this.questions = (await get("questions")).questions;
    refill(by("questions"), el("option", {}, `Start from a question (${this.questions.length})`),
      ...this.questions.map((question) => el("option", {}, question.title)));
    this.text.value ||= this.questions[0]?.sql ?? "";
  }

  open(open) {
    by("box").hidden = !open;
    by("fold").setAttribute("aria-expanded", open);
    if (open) this.text.focus();
  }

  show(text, run = false) {
    this.open(true);
    this.text.value = text;
    if (run) this.run();
  }

  say(words, bad = false) {
    by("asked").textContent = words;
    by("asked").classList.toggle("bad", bad);
  }

  async run() {
    this.open(true);
    this.say("Asking …");
    const began = performance.now();
    const mine = (this.latest = Symbol("question"));
    try {
      const got = await sql(this.text.value);
      if (mine === this.latest) this.render(got, performance.now() - began);
    } catch (error) {
      if (mine !== this.latest) return;
      this.say(error.message, true);
      refill(by("answer"));
    }
  }

  render(got, took) {
    const parts = [`${count(got.rows.length)} ${got.rows.length === 1 ? "row" : "rows"}`, `${(took / 1000).toFixed(2)} s`];
    if (got.truncated) parts.push("there are more: this page shows the first of them");
    this.say([...parts, ...got.lacks].join("; "), got.lacks.length > 0);
    const head = el("tr", {}, ...got.columns.map((name, i) => el("th", { class: got.numeric[i] ? "number" : null, scope: "col" }, name)));
    const cell = (value, i) => value === null
      ? el("td", { class: "nothing" }, "NULL")
      : el("td", { class: got.numeric[i] ? "number" : null, title: String(value) }, typeof value === "object" ? JSON.stringify(value) : told(value));
    const rows = got.rows.map((row) => el("tr", {}, ...row.map(cell)));
    refill(by("answer"), el("table", { class: "grid" }, el("thead", {}, head), el("tbody", {}, ...rows)));
  }
}

function told(value) {
  return typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(6))) : String(value);
}
