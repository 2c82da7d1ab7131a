// Tenants as switches: a chip each, those without work on a GPU together as one.

import { by, el, refill } from "./dom.js";
import { brief } from "./format.js";

const FEW = 12; // Shown at once; the rest on request.

export class Chips {
  constructor(view, theme) {
    this.view = view;
    this.theme = theme;
    this.all = false;
  }

  render(status) {
    if (!status?.tenants) return;
    this.status = status;
    const own = status.tenants.filter(({ name }) => this.theme.known(name));
    const others = status.tenants.filter(({ name }) => !this.theme.known(name)).map(({ name }) => name);
    const many = own.length > FEW + 1;
    const made = (many && !this.all ? own.slice(0, FEW) : own).map((tenant, place) => this.chip(tenant, place));
    if (many) made.push(this.more(own.length - FEW));
    if (others.length) made.push(this.others(others));
    const focused = document.activeElement?.dataset?.tenant;
    refill(by("tenants"), ...made);
    if (focused !== undefined) made.find((chip) => chip.dataset.tenant === focused)?.focus();
  }

  chip({ name, events }, place) {
    const total = Object.values(events).reduce((sum, n) => sum + n, 0);
    const kinds = Object.entries(events).map(([family, n]) => `${brief(n)} ${family}`).join(", ");
    const title = `events: ${kinds}${place < 9 ? ` (key ${place + 1})` : ""}`;
    const on = !this.view.off.has(name);
    return switched(on, { "--own": this.theme.variable(name), title, "data-tenant": name, onclick: () => this.view.toggle(name) }, name, brief(total));
  }

  others(names) {
    const on = names.some((name) => !this.view.off.has(name));
    const title = `without GPU work: ${names.join(", ")}`;
    return switched(on, { "--own": "var(--tenant-none)", title, "data-tenant": "", onclick: () => this.view.toggleAll(names, !on) }, "others", String(names.length));
  }

  more(rest) {
    const onclick = () => {
      this.all = !this.all;
      this.render(this.status);
    };
    return el("button", { class: "chip", type: "button", "aria-expanded": String(this.all), "data-tenant": "\n", onclick }, this.all ? "Fewer" : `${rest} more`);
  }
}

function switched(on, more, name, number) {
  return el("button", { class: "chip", type: "button", "aria-pressed": String(on), ...more }, el("i"), el("b", {}, name), el("small", {}, number));
}
