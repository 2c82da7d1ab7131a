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

/** What an answer lacks: in full, or in a word where the page says above what the recording lacks. */
export function lacking(answer, recording) {
  const lines = answer.lacks ?? [];
  if (!lines.length || !recording?.lacks.length) return lines.map((line) => el("p", { class: "lacks" }, line));
  return [el("p", { class: "lacks", title: lines.join("\n") }, "incomplete: see above")];
}

/** Calls `run` once things have been quiet for a while. */
export function later(wait, run) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(run, wait, ...given);
  };
}
