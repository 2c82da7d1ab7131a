// Elements, made without ever parsing text as HTML: a tenant chooses its names.

export const by = (id) => document.getElementById(id);

/** An element with attributes, properties (`.name`), listeners (`onname`) and children. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) made.style.setProperty(name, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function refill(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

// Of a part of the recording, numbers and times are others.
const NUMBER = /(?<![\w@/.-])\d[\d.,:-]*(?: (?:s|ms|us|ns))?(?![\w@/-])/g;
const kind = (line) => line.replace(NUMBER, "#");

/** What an answer lacks that the page does not say above of the recording, in full. */
export function unsaid(answer, recording) {
  const above = new Set((recording?.lacks ?? []).map(kind));
  return (answer.lacks ?? []).filter((line) => !above.has(kind(line))).map((line) => el("p", { class: "lacks" }, line));
}

/** All that an answer lacks: what the page says above of the recording, too, in a word. */
export function lacking(answer, recording) {
  const lines = answer.lacks ?? [];
  const news = unsaid(answer, recording);
  if (news.length === lines.length) return news;
  return [...news, el("p", { class: "lacks", title: lines.join("\n") }, "incomplete: see above")];
}

/** Calls `run` once things have been quiet for a while. */
export function later(wait, run) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(run, wait, ...given);
  };
}
