// What is on screen: which time, which tenants, which event; and the link that says so.

export const WHOLE = 1.03; // The whole recording is shown with a little air around it.

/** Times are numbers of ns from `origin`, a BigInt: exact for a hundred days. */
export class View extends EventTarget {
  constructor() {
    super();
    this.origin = 0n;
    this.start = 0; // Of what is on screen.
    this.span = 1e9;
    this.all = false; // Whether that is all there is: then it grows with it.
    this.first = 0; // Of what there is.
    this.last = 1e9;
    this.off = new Set(); // Tenants that are switched off.
    this.folded = new Set(); // Tenants shown as one lane.
    this.closed = new Set(); // Nodes of which only the name is shown.
    this.node = null; // The only one that is looked at, of many.
    this.selected = null; // {family, at, tid}, `at` a BigInt since 1970.
    this.follow = false;
  }

  get end() { return this.start + this.span; }
  absolute(time) { return this.origin + BigInt(Math.round(time)); }
  relative(ns) { return Number(ns - this.origin); }

  changed(what = "time") { this.dispatchEvent(new CustomEvent("change", { detail: what })); }

  show(start, span) {
    if (!Number.isFinite(start) || !Number.isFinite(span)) return;
    this.all = false;
    const whole = Math.max(this.last - this.first, 1000);
    this.span = Math.min(Math.max(span, 20), whole * 1.3);
    const slack = this.span * 0.5;
    this.start = Math.min(Math.max(start, this.first - slack), this.last - this.span + slack);
    this.changed();
  }

  zoom(factor, at) { this.show(at - (at - this.start) * factor, this.span * factor); }
  pan(share) { this.show(this.start + share * this.span, this.span); }

  whole() {
    const length = Math.max(this.last - this.first, 1000);
    this.show(this.first - length * (WHOLE - 1) / 2, length * WHOLE);
    this.all = true;
  }

  toggle(tenant) {
    if (!this.off.delete(tenant)) this.off.add(tenant);
    this.changed("tenants");
  }

  toggleAll(tenants, on) {
    for (const tenant of tenants) if (on) this.off.delete(tenant); else this.off.add(tenant);
    this.changed("tenants");
  }

  fold(tenant) {
    if (!this.folded.delete(tenant)) this.folded.add(tenant);
    this.changed("tenants");
  }

  close(node) {
    if (!this.closed.delete(node)) this.closed.add(node);
    this.changed("tenants");
  }

  select(event) {
    this.selected = event;
    this.changed("selection");
  }

  link() {
    const said = new URLSearchParams();
    said.set("from", this.absolute(this.start));
    said.set("span", Math.round(this.span));
    for (const tenant of this.off) said.append("off", tenant);
    for (const tenant of this.folded) said.append("fold", tenant);
    for (const node of this.closed) said.append("close", node);
    if (this.node !== null) said.set("node", this.node);
    const { family, at, tid } = this.selected ?? {};
    if (family) said.set("event", `${family}:${at}:${tid}`);
    if (this.follow) said.set("live", "1");
    return `#${said}`;
  }

  /** Reads a link; true if it says which time to show. */
  read(hash) {
    const said = new URLSearchParams(hash.slice(1));
    this.off = new Set(said.getAll("off"));
    this.folded = new Set(said.getAll("fold"));
    this.closed = new Set(said.getAll("close"));
    this.node = said.get("node");
    this.follow = said.has("live");
    const [family, at, tid] = (said.get("event") ?? "").split(":");
    this.selected = /^\d+$/.test(at ?? "") && /^\d+$/.test(tid ?? "")
      ? { family, at: BigInt(at), tid: Number(tid) } : null;
    if (!/^\d+$/.test(said.get("from") ?? "") || !(Number(said.get("span")) > 0)) return false;
    this.all = false;
    this.start = this.relative(BigInt(said.get("from")));
    this.span = Number(said.get("span"));
    return true;
  }
}
