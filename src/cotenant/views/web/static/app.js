// The page: opens the store, keeps up with it, and wires the parts together.

import { chooseNode, get, keepToken, takeToken } from "./api.js";
import { Chips } from "./chips.js";
import { Details } from "./details.js";
import { Findings } from "./findings.js";
import { by, el, later, refill } from "./dom.js";
import { brief, count, duration, moment } from "./format.js";
import { Fleet } from "./fleet.js";
import { listen } from "./keys.js";
import { Panels } from "./panels.js";
import { SqlBox } from "./sqlbox.js";
import { Theme } from "./theme.js";
import { Timeline } from "./timeline.js";
import { View } from "./view.js";

const LIVE_MS = 1000;
const STILL_MS = 5000;
const INSIGHT_MS = 4000; // Between looks at a live recording; the server may keep an answer longer.
const LATE_S = 6; // Newer events than this are there in a recording that keeps up.
const LIVE_SPAN = 20e9;
const ALIGNED = 2n ** 36n;

class Page {
  constructor() {
    this.view = new View();
    this.theme = new Theme();
    this.sql = new SqlBox();
    const showSql = (text, run) => this.sql.show(text, run);
    this.details = new Details(this.view, this.theme, showSql);
    this.timeline = new Timeline(this.view, this.theme, {
      failed: (error) => this.notice(error.message),
      lanes: later(200, () => this.look()),
      hover: (mark, event) => this.details.hover(mark, event),
      click: (mark) => this.details.click(mark).catch((error) => this.notice(error.message)),
    });
    this.panels = new Panels(by("panels"), this, showSql);
    this.findings = new Findings(this);
    this.switches = new Chips(this.view, this.theme);
    this.fleet = new Fleet(this.findings);
    this.view.node = nodeOf(location.hash);
    chooseNode(this.view.node);
    by("nodes").hidden = this.view.node === null;
    this.opened = false;
    this.wire();
    listen(this);
  }

  wire() {
    const link = later(250, () => history.replaceState(null, "", this.view.link()));
    this.view.addEventListener("change", ({ detail }) => {
      link();
      by("follow").setAttribute("aria-pressed", this.view.follow);
      if (detail === "tenants") {
        this.chips();
        this.panels.render();
      }
      if (detail === "selection") this.details.refresh().catch((error) => this.notice(error.message));
    });
    by("all").addEventListener("click", () => {
      this.view.follow = false;
      this.view.whole();
    });
    by("theme").addEventListener("click", () => {
      this.theme.flip();
      this.timeline.paint();
    });
    by("follow").addEventListener("click", () => {
      this.view.follow = !this.view.follow;
      this.followNow();
      this.view.changed();
    });
    by("link").addEventListener("click", async () => {
      const address = location.href.split("#")[0] + this.view.link();
      await navigator.clipboard.writeText(address).catch(() => history.replaceState(null, "", this.view.link()));
      by("link").textContent = "Copied";
      setTimeout(() => { by("link").textContent = "Copy link"; }, 1500);
    });
    by("knock").addEventListener("submit", () => {
      keepToken(by("token").value.trim());
      this.look();
    });
    addEventListener("hashchange", () => {
      // All that is on screen is of one node or of all.
      if (nodeOf(location.hash) !== this.view.node) return location.reload();
      if (!this.opened) return;
      if (this.view.read(location.hash)) this.view.changed("tenants");
      this.view.changed("selection");
    });
  }

  async start() {
    await this.look();
    this.insights();
    for (;;) {
      if ((this.opened || this.many) && !this.sql.questions.length) this.sql.learn().catch((error) => this.notice(error.message));
      await new Promise((done) => setTimeout(done, this.status?.state === "live" ? LIVE_MS : STILL_MS));
      if (!document.hidden) await this.look();
    }
  }

  /** Who slows whom and what stands out: at once, and of a live recording again and again. */
  async insights() {
    for (;;) {
      const [ready, many] = [this.opened || this.many, this.many];
      if (ready && !document.hidden && this.status.version !== this.findings.version) {
        await Promise.all([this.findings.ask(this.status.version), many ? this.fleet.ask() : this.panels.interference()]);
        if (many) this.fleet.fill();
      }
      await new Promise((done) => setTimeout(done, ready ? INSIGHT_MS : 100));
    }
  }

  /** Asks what there is, and shows it; every state of the store has its words. */
  async look() {
    let status;
    try {
      status = await get("status");
    } catch (error) {
      by("status").textContent = "Not connected to a store";
      if (error.status === 401) {
        if (!by("door").open) by("door").showModal();
      } else this.notice(error.message);
      return;
    }
    const grown = status.version !== this.status?.version || status.survey !== this.status.survey;
    this.status = status;
    document.body.dataset.state = status.state;
    if (this.many) {
      by("status").textContent = `${status.store}: ${count(status.nodes.length)} nodes`;
      this.fleet.show(status);
      return;
    }
    if (status.state === "empty") {
      by("findings").hidden = true;
      by("status").textContent = `${status.store}: empty`;
      this.notice("Nothing was recorded yet. Start `cotenant record` on this host: what it records appears here by itself.", true);
      return;
    }
    this.theme.learn(gpuTenants(status), status.store);
    this.extend(status, grown);
    if (this.outside) this.offer();
    else this.notice(status.lacks.join("; "));
    if (grown) this.findings.render();
    this.chips();
    this.words(status);
  }

  /** Whether there are too many nodes for one timeline. */
  get many() { return this.status?.state === "fleet"; }

  /** Whether a link led to a time that was not recorded. */
  get outside() { return this.view.end < this.view.first || this.view.start > this.view.last; }

  offer() {
    const { view } = this;
    const when = `${moment(view.absolute(view.start), 0, true)} UTC`;
    this.notice(`This link leads to ${when}, which is not in this recording. `, true);
    by("notice").append(el("button", { type: "button", onclick: () => {
      this.notice("");
      view.whole();
    } }, "Go to the recording"));
  }

  extend(status, grown) {
    const { view } = this;
    const [first, last] = [BigInt(status.start_ns), BigInt(status.end_ns)];
    if (!this.opened) view.origin = (first / ALIGNED) * ALIGNED;
    const before = Math.min(view.last, this.surveyed ?? view.first);
    this.surveyed = status.surveyed_ns === null ? null : view.relative(BigInt(status.surveyed_ns));
    Object.assign(view, { first: view.relative(first), last: Math.max(view.relative(last), view.relative(first) + 1) });
    if (!this.opened) {
      const told = view.read(location.hash);
      this.opened = true;
      view.follow ||= status.state === "live" && !told;
      this.timeline.open(status);
      if (view.follow && !told) view.span = LIVE_SPAN;
      if (view.follow) this.followNow();
      else if (!told) this.first(status);
      else view.changed();
      if (view.selected) view.changed("selection");
      return;
    }
    // A call is stored when it ends, under the time at which it began.
    if (grown) this.timeline.tiles.outdate(before - 2e9);
    this.timeline.open(status);
    this.followNow();
    if (grown && view.all) view.whole();
    if (grown) this.panels.settle();
  }

  /** All there is, or the newest part of it that can be shown at once. */
  first(status) {
    const { view } = this;
    if (status.newest_ns === null) return view.whole();
    const start = view.relative(BigInt(status.newest_ns));
    view.show(start, view.last - start);
  }

  followNow() {
    const { view } = this;
    if (!view.follow || this.status?.state !== "live") return;
    view.show(view.last - view.span * 0.97, view.span);
  }

  words(status) {
    const { view } = this;
    const [first, last] = [view.absolute(view.first), view.absolute(view.last)];
    const days = moment(first, 0, true).slice(0, 10) === moment(last, 0, true).slice(0, 10);
    const events = status.tenants.flatMap((tenant) => Object.values(tenant.events)).reduce((sum, n) => sum + n, 0);
    const whose = status.tenant ? `only ${status.tenant}: ` : view.node !== null ? `node ${view.node}: ` : "";
    by("status").textContent = `${whose}${brief(events)} events of ${status.tenants.length} tenants${status.nodes.length > 1 ? ` on ${status.nodes.length} nodes` : ""}, ${moment(first, 0, true)} to ${moment(last, 0, !days)} UTC (${duration(view.last - view.first)})${this.standing(status)}${this.part(status)}`;
    by("follow").hidden = status.state !== "live";
    by("follow").setAttribute("aria-pressed", view.follow);
  }

  standing(status) {
    if (status.state === "live" && status.behind_s > LATE_S) return `, live but late: the newest event is ${count(status.behind_s)} s old`;
    return status.lacks.length ? "" : ", complete";
  }

  /** What a large recording was opened on. */
  part(status) {
    if (status.newest_ns === null || status.state === "live") return "";
    return `; opened on the newest ${duration(this.view.last - this.view.relative(BigInt(status.newest_ns)))}`;
  }

  chips() { this.switches.render(this.status); }

  toggle(place) {
    const tenant = this.status?.tenants.filter(({ name }) => this.theme.known(name))[place];
    if (tenant) this.view.toggle(tenant.name);
  }

  foldAll() {
    const { view } = this;
    const names = this.status.tenants.map((tenant) => tenant.name);
    view.folded = new Set(view.folded.size ? [] : names);
    view.changed("tenants");
  }

  zoomToSelected() {
    const { selected } = this.view;
    if (!selected) return;
    const at = this.view.relative(selected.at);
    const mark = this.timeline.neighbour(0);
    const length = Math.max(mark?.at === at ? mark.length : 0, 200);
    this.view.show(at - length * 1.5, length * 4);
  }

  notice(words, calm = false) {
    by("notice").hidden = !words;
    by("notice").textContent = words;
    by("notice").classList.toggle("calm", calm);
  }
}

/** The node that a link is about; null is all of them. */
function nodeOf(hash) {
  return new URLSearchParams(hash.slice(1)).get("node");
}

/** Who has work on a GPU, by name; all, where nobody has. */
function gpuTenants(status) {
  const families = status.families.filter((family) => family.gpu).map((family) => family.name);
  const own = status.tenants.filter(({ events }) => families.some((name) => events[name]));
  return (own.length ? own : status.tenants).map(({ name }) => name).sort();
}

takeToken();
const page = new Page();
globalThis.cotenant = page; // For the console, and for tests.
page.start();
