// Everything a mouse can do, by keyboard.

import { by, el, refill } from "./dom.js";

const HELP = [
  ["← →", "move in time; with Shift, by a whole screen"],
  ["+ −  or  W S", "zoom in and out"],
  ["↑ ↓", "scroll the lanes"],
  ["Home", "the whole recording"],
  ["N  P", "the next and the previous event of a lane; the details appear beside"],
  ["Z", "zoom to the selected event"],
  ["1 … 9", "switch a tenant off and on"],
  ["F", "fold or unfold all tenants"],
  ["L", "follow what is being recorded"],
  ["/", "write SQL; Ctrl+Enter runs it"],
  ["T", "light or dark"],
  ["Esc", "let go of the selection"],
  ["Mouse", "drag to move, wheel to zoom, click for details and SQL, click a name to fold"],
];

export function listen(page) {
  const { view, timeline } = page;
  const actions = {
    ArrowLeft: (event) => view.pan(event.shiftKey ? -1 : -0.15),
    ArrowRight: (event) => view.pan(event.shiftKey ? 1 : 0.15),
    ArrowUp: () => scroll(-42), ArrowDown: () => scroll(42),
    "+": () => zoom(0.6), "=": () => zoom(0.6), w: () => zoom(0.6),
    "-": () => zoom(1 / 0.6), s: () => zoom(1 / 0.6),
    Home: () => view.whole(),
    n: () => step(1), p: () => step(-1),
    z: () => page.zoomToSelected(),
    f: () => page.foldAll(),
    l: () => by("follow").click(), t: () => by("theme").click(),
    "/": () => page.sql.open(true),
    "?": () => by("help").showModal(),
    Escape: () => view.select(null),
  };
  const scroll = (by) => { timeline.scroll += by; timeline.paint(); };
  const zoom = (factor) => view.zoom(factor, view.start + view.span / 2);
  const step = (by) => {
    const mark = timeline.neighbour(by);
    if (!mark) return;
    if (mark.at < view.start || mark.at > view.end) view.show(mark.at - view.span / 2, view.span);
    page.details.click(mark);
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("textarea, input, select, dialog")) return;
    const digit = Number(event.key);
    const action = digit >= 1 ? () => page.toggle(digit - 1) : actions[event.key] ?? actions[event.key.toLowerCase()];
    const scrolls = event.key.startsWith("Arrow") && event.target.closest?.("#panels, #answer");
    if (!action || scrolls) return;
    if (event.key.startsWith("Arrow") || event.key === "Home") view.follow = false;
    event.preventDefault();
    action(event);
  });
  refill(by("help"), el("h2", {}, "Keys"), el("dl", {}, ...HELP.flatMap(([key, does]) => [el("dt", {}, key), el("dd", {}, does)])),
    el("form", { method: "dialog" }, el("button", { type: "submit" }, "Close")));
  by("keys").addEventListener("click", () => by("help").showModal());
}
