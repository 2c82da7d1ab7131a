// Light or dark, and a colour for each tenant that stays its own.

const KEPT = "cotenant-theme";
const COLOURS = 8;
const NOBODY = new Set(["host", "kernel", "unknown"]);

export class Theme {
  constructor() {
    this.order = new Map();
    this.cache = new Map();
    const asked = localStorage.getItem(KEPT);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    this.set(asked ?? (dark.matches ? "dark" : "light"));
    dark.addEventListener("change", () => {
      if (!localStorage.getItem(KEPT)) this.set(dark.matches ? "dark" : "light");
    });
  }

  set(name) {
    this.name = name;
    document.documentElement.dataset.theme = name;
    const style = getComputedStyle(document.documentElement);
    const read = (key) => style.getPropertyValue(`--${key}`).trim();
    this.cache.clear();
    this.ink = read("ink");
    this.quiet = read("quiet");
    this.faint = read("faint");
    this.line = read("line");
    this.panel = read("panel");
    this.raised = read("raised");
    this.ground = read("ground");
    this.accent = read("accent");
    this.palette = Array.from({ length: COLOURS }, (_, i) => read(`tenant-${i}`));
    this.none = read("tenant-none");
  }

  flip() {
    this.set(this.name === "dark" ? "light" : "dark");
    localStorage.setItem(KEPT, this.name);
  }

  /** Tenants in the order in which they were first seen: who came first keeps its colour. */
  learn(tenants) {
    for (const tenant of tenants) {
      if (!NOBODY.has(tenant) && !this.order.has(tenant)) {
        this.order.set(tenant, this.order.size);
        this.cache.clear();
      }
    }
  }

  of(tenant) {
    const place = this.order.get(tenant);
    return place === undefined ? this.none : this.palette[place % COLOURS];
  }

  /** The CSS variable, for what is not painted. */
  variable(tenant) {
    const place = this.order.get(tenant);
    return place === undefined ? "var(--tenant-none)" : `var(--tenant-${place % COLOURS})`;
  }

  /** One of a few tints, so that slices side by side can be told apart; the same for one name. */
  tint(tenant, name) {
    const key = `${tenant}\n${name}`;
    let found = this.cache.get(key);
    if (!found) {
      let hash = 7;
      for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) | 0;
      found = mix(this.of(tenant), this.name === "dark" ? "#000000" : "#ffffff", [0, 0.14, 0.28, 0.07, 0.21][(hash >>> 3) % 5]);
      this.cache.set(key, found);
    }
    return found;
  }

  /** Black or white, whichever can be read on it. */
  over(colour) {
    const [r, g, b] = parts(colour);
    return 0.299 * r + 0.587 * g + 0.114 * b > 150 ? "#10131a" : "#ffffff";
  }
}

function parts(colour) {
  const number = parseInt(colour.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

function mix(one, other, share) {
  const [a, b] = [parts(one), parts(other)];
  const mixed = a.map((part, i) => Math.round(part + (b[i] - part) * share));
  return `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}
