// What stands out, above everything else: a sentence each; a click shows it in the timeline.

import { get } from "./api.js";
import { by, el, refill, unsaid } from "./dom.js";
import { duration } from "./format.js";

const FEW = 3; // Shown at once; the rest on request.
const WINDOW = 0.1; // Of the recording: what a click shows around the moment.
const DEVICE = /\b((?:GPU|MIG)-[0-9a-f]{8})[0-9a-f-]+/g;

export class Findings {
  constructor(page) {
    this.page = page;
    this.parent = by("findings");
    this.all = false;
    this.got = null;
    this.version = null;
  }

  /** Asks, and remembers of which state of the store the answer is: it may be older than asked. */
  async ask(version) {
    try {
      this.got = await get("findings");
      this.version = this.got.version;
      this.render();
    } catch (error) {
      this.version = version;
      this.say(error.message);
    }
  }

  say(words) {
    this.parent.hidden = false;
    refill(this.parent, el("h2", {}, "What stands out"), el("p", {}, words));
  }

  render() {
    const { got, page } = this;
    this.parent.hidden = Boolean(got?.unknown);
    if (this.parent.hidden) return;
    if (!got) return this.say("Looking at who slows whom …");
    const gpu = (one) => page.theme.known(one.victim) || page.theme.known(one.culprit);
    const found = [...got.findings.filter(gpu), ...got.findings.filter((one) => !gpu(one))];
    const shown = this.all ? found : found.slice(0, FEW);
    const rest = Math.max(found.length - FEW, 0) + Math.max((got.maybes ?? []).length - (found.length ? 0 : FEW), 0);
    const more = rest > 0 ? el("button", { type: "button", class: "more", "aria-expanded": String(this.all), onclick: () => this.toggle() }, this.all ? "Fewer" : `${rest} more`) : null;
    const head = el("header", {}, el("h2", {}, "What stands out"), el("small", {}, "in the whole recording"), more);
    const said = found.length
      ? el("ol", {}, ...shown.map((one) => el("li", {}, this.card(one))))
      : el("p", {}, unsampled(got) ?? "Nothing stands out: no tenant is slowed by another, as far as the recording tells.");
    refill(this.parent, head, said, ...this.maybes(), ...unsaid(got, page.status));
  }

  /** What may be so, if nothing surely is, or if somebody asks for all. */
  maybes() {
    const all = this.got.maybes ?? [];
    const shown = this.all ? all : this.got.findings.length ? [] : all.slice(0, FEW);
    return shown.map((one) => el("p", { title: one.next }, `Maybe: ${one.title}`));
  }

  card(one) {
    const [first, ...others] = one.evidence;
    const time = one.cost_ns ? `${duration(one.cost_ns)}, ` : "";
    const cost = `costs ${one.victim} ${time}${Number((100 * one.share).toPrecision(3))} % of ${one.base}; confidence ${sure(one.confidence)}`;
    return el("button", { type: "button", class: "finding", "--own": this.page.theme.variable(one.victim), title: [...others, one.next].filter(Boolean).join("\n"), onclick: () => this.show(one) },
      el("b", {}, one.title.replace(DEVICE, "$1…")), el("span", {}, where(one) + cost), first ? el("span", {}, first) : null);
  }

  toggle() {
    this.all = !this.all;
    this.render();
  }

  /** Leaves only victim and culprit on, and goes to where both had work. */
  show(one) {
    const { view, timeline, status } = this.page;
    if (this.page.many) {
      if (one.nodes?.length) location.hash = new URLSearchParams({ node: one.nodes[0] });
      return;
    }
    const wanted = new Set([...one.victim.split(", "), one.culprit]);
    view.off = new Set(status.tenants.map((tenant) => tenant.name).filter((name) => !wanted.has(name)));
    view.follow = false;
    const at = timeline.together([...wanted]);
    const span = (view.last - view.first) * WINDOW;
    if (at === null) view.whole();
    else view.show(at - span / 2, span);
    view.changed("tenants");
    by("timeline").scrollIntoView({ block: "nearest" });
  }
}

/** Where too few samples are no all-clear. */
const unsampled = (got) => got.unsampled?.length ? `${got.unsampled[0].title}${got.unsampled.length > 1 ? `, and ${got.unsampled.length - 1} more pairs` : ""}` : null;
const where = ({ nodes, victim }) => !nodes?.length || victim.endsWith(`@${nodes[0]}`) ? ""
  : `on ${nodes.slice(0, 3).join(", ")}${nodes.length > 3 ? ` and ${nodes.length - 3} more` : ""}; `;
const sure = (confidence) => confidence >= 0.9 ? "high" : confidence >= 0.7 ? "fair" : "low";
