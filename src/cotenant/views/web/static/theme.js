// Light or dark, and a colour for each tenant that stays its own.

const KEPT = "cotenant-theme";
const COLOURED = "cotenant-colours-";
const COLOURS = 8;
const MOST = 64; // Tenants whose colours are remembered.
const GOLDEN = 137.508; // Degrees: hues that far apart never meet.

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

  /** Tenants that get a colour: the one they had when this store was last looked at, or a free one. */
  learn(tenants, store) {
    const fresh = tenants.filter((tenant) => !this.order.has(tenant));
    if (!fresh.length) return;
    const kept = remembered(store);
    const taken = new Set([...this.order.values(), ...fresh.map((tenant) => kept[tenant])]);
    for (const tenant of fresh) {
      let place = kept[tenant];
      if (place === undefined) for (place = 0; taken.has(place); place++);
      taken.add(place);
      this.order.set(tenant, place);
    }
    this.cache.clear();
    localStorage.setItem(COLOURED + store, JSON.stringify(Object.fromEntries([...this.order].slice(0, MOST))));
  }

  known(tenant) { return this.order.has(tenant); }

  of(tenant) {
    const place = this.order.get(tenant);
    if (place === undefined) return this.none;
    return place < COLOURS ? this.palette[place] : this.made(place);
  }

  /** A colour beyond the picked ones, like none before it. */
  made(place) {
    const light = (this.name === "dark" ? 0.68 : 0.36) + 0.05 * (place % 3 - 1);
    return hex((place * GOLDEN) % 360, 0.62, light);
  }

  /** What CSS calls it, for what is not painted. */
  variable(tenant) {
    const place = this.order.get(tenant);
    if (place === undefined) return "var(--tenant-none)";
    return place < COLOURS ? `var(--tenant-${place})` : this.made(place);
  }

  /** One of a few tints, so that slices side by side can be told apart; the same for one name. */
  tint(tenant, name) {
    const key = `${tenant}\n${name}`;
    let found = this.cache.get(key);
    if (!found) {
      found = mix(this.of(tenant), this.name === "dark" ? "#000000" : "#ffffff", [0, 0.14, 0.28, 0.07, 0.21][hashed(name) % 5]);
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

function remembered(store) {
  try {
    const told = Object.entries(JSON.parse(localStorage.getItem(COLOURED + store)) ?? {});
    const good = told.filter(([, place]) => Number.isInteger(place) && place >= 0 && place < MOST);
    return new Set(good.map(([, place]) => place)).size === good.length ? Object.fromEntries(good) : {};
  } catch {
    return {};
  }
}

function hashed(text) {
  let hash = 7;
  for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) | 0;
  return hash >>> 3;
}

function hex(hue, saturation, light) {
  const part = (n) => {
    const k = (n + hue / 30) % 12;
    const value = light - saturation * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return Math.round(255 * value).toString(16).padStart(2, "0");
  };
  return `#${part(0)}${part(8)}${part(4)}`;
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
