// Asking the server; what it refuses comes back as an Error in its words.

const KEPT = "cotenant-token";
let token = "";
let node = null; // Which everything is asked about; null is all of them.

/** The part of an address after #; a plus sign in it is one, and no space as in a form. */
const settings = (text) => new URLSearchParams(text.replaceAll("+", "%2B"));

/** Takes the token out of the address, so that a copied link does not carry it. */
export function takeToken() {
  const hash = settings(location.hash.slice(1));
  token = hash.get("token") ?? localStorage.getItem(KEPT) ?? "";
  if (hash.has("token")) {
    keepToken(token);
    hash.delete("token");
    const rest = hash.toString();
    history.replaceState(null, "", rest ? `#${rest}` : location.pathname);
  }
}

export function keepToken(given) {
  token = given.includes("token=") ? settings(given.split("#").pop()).get("token") : given;
  localStorage.setItem(KEPT, token);
}

/** From now on, ask about this node alone. */
export function chooseNode(name) { node = name; }

export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

// A tenant chooses its names: what would turn the reading direction or hide is spelled out.
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]/gu;
const spelled = (mark) => mark === "\n" || mark === "\t" ? mark : `\\u{${mark.codePointAt(0).toString(16)}}`;
const shown = (_, value) => typeof value === "string" ? value.replace(HIDDEN, spelled) : value;

async function answer(response) {
  let content = null;
  try {
    content = JSON.parse(await response.text(), shown);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(response.status, "the server's answer cannot be read");
  }
  if (!response.ok) throw new Refused(response.status, content.error ?? "refused");
  return content;
}

async function send(path, options) {
  const headers = { authorization: `Bearer ${token}`, ...options.headers };
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the server does not answer; is `cotenant serve` still running?");
  }
  return answer(response);
}

function address(name, query) {
  const text = new URLSearchParams(node === null ? query : { ...query, node }).toString();
  return `api/${name}${text ? `?${text}` : ""}`;
}

export function get(name, query = {}, signal = undefined) {
  return send(address(name, query), { signal });
}

export function sql(text) {
  return send(address("sql", {}), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ sql: text }),
  });
}
