// Numbers in the units one thinks in.

const three = (number) => {
  const size = Math.abs(number);
  return number.toFixed(size >= 100 || Number.isInteger(number) ? 0 : size >= 10 ? 1 : 2);
};

export function duration(ns) {
  const size = Math.abs(ns);
  if (size >= 3.6e12) return `${three(ns / 3.6e12)} h`;
  if (size >= 6e10) return `${three(ns / 6e10)} min`;
  if (size >= 1e9) return `${three(ns / 1e9)} s`;
  if (size >= 1e6) return `${three(ns / 1e6)} ms`;
  if (size >= 1e3) return `${three(ns / 1e3)} µs`;
  return `${Math.round(ns)} ns`;
}

export function count(number) {
  return Number(number).toLocaleString("en-US", { maximumFractionDigits: 0 });
}

export function brief(number) {
  if (number >= 1e9) return `${three(number / 1e9)} G`;
  if (number >= 1e6) return `${three(number / 1e6)} M`;
  if (number >= 1e4) return `${three(number / 1e3)} k`;
  return number >= 100 || Number.isInteger(number) ? count(number) : three(number);
}

/** A share, with a digit; what is little is not nothing. */
export function percent(share) {
  const said = (100 * share).toFixed(1);
  return `${share > 0 && said === "0.0" ? "<0.1" : said} %`;
}

export function bytes(number) {
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024]]) {
    if (number >= size) return `${three(number / size)} ${unit}`;
  }
  return `${Math.round(number)} B`;
}

const pad = (number, width = 2) => String(number).padStart(width, "0");

/** A moment in UTC with `digits` digits after the second; `ns` is a BigInt since 1970. */
export function moment(ns, digits = 0, day = false) {
  const when = new Date(Number(ns / 1000000n));
  const date = `${when.getUTCFullYear()}-${pad(when.getUTCMonth() + 1)}-${pad(when.getUTCDate())} `;
  const clock = `${pad(when.getUTCHours())}:${pad(when.getUTCMinutes())}:${pad(when.getUTCSeconds())}`;
  const part = pad(ns % 1000000000n, 9).slice(0, digits);
  return (day ? date : "") + clock + (digits ? `.${part}` : "");
}
