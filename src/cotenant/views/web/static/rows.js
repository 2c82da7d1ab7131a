// Which row of the canvas is whose: node by node, tenants with their streams, then what the host did.

const HEAD = 25;
const LANE = 21;
const THIN = 15;
const TITLE = 23;
const NODE = 30;
const FEW = 8; // A tenant with more lanes starts folded into one.
const NOBODY = new Set(["host", "kernel", "unknown"]);

const TALLEST = 1.6; // Where there is room, lanes grow by this much.

/** The rows, as tall as the room allows. */
export function rowsOf(status, view, room, known) {
  const plain = arranged(status, view, 1, known);
  const factor = Math.min(TALLEST, (room - 20) / Math.max(plain.height, 1));
  return factor > 1.05 ? arranged(status, view, factor, known) : plain;
}

/** Rows from top to bottom: {kind, y, height, node, tenant, label, lanes: Set of lane ids}. */
function arranged(status, view, factor, known) {
  const rows = [];
  let y = 0;
  const add = (height, row) => {
    rows.push({ y, height, lanes: new Set(), ...row });
    y += height;
  };
  const skip = (height) => { y += height; };
  const nodes = nodesOf(status.lanes);
  if (nodes.length < 2) group({ status, view, factor, known, add, skip, node: null }, status.lanes);
  else for (const node of nodes) {
    const lanes = status.lanes.filter((lane) => lane.node === node);
    const closed = view.closed.has(node);
    const tenants = new Set(lanes.filter((lane) => known(lane.tenant)).map((lane) => lane.tenant)).size;
    add(NODE, { kind: "node", node, label: node, folded: closed, said: `${tenants} with GPU work` });
    if (!closed) group({ status, view, factor, known, add, skip, node }, lanes);
  }
  return { rows, height: y };
}

/** The nodes that lanes are on, by name; tenants that nobody knows yet are on none. */
export function nodesOf(lanes) {
  return [...new Set(lanes.map((lane) => lane.node).filter((node) => node !== null))].sort();
}

/** The rows of one node, or of the only one. */
function group({ status, view, factor, known, add, skip, node }, all) {
  const shown = status.tenants.map((t) => t.name).filter((name) => !view.off.has(name));
  const families = new Map(status.families.map((family) => [family.name, family]));
  const gpu = all.filter((lane) => families.get(lane.family).gpu);
  const said = (tenant) => node !== null && tenant.endsWith(`@${node}`) ? tenant.slice(0, -node.length - 1) : tenant;
  for (const tenant of shown) {
    const lanes = gpu.filter((lane) => lane.tenant === tenant);
    if (!lanes.length) continue;
    const folded = view.folded.has(tenant) !== (lanes.length > FEW || (NOBODY.has(tenant.split("@")[0]) && lanes.length > 2));
    const ids = new Set(lanes.map((lane) => lane.id));
    add(folded ? Math.round(HEAD * factor) : HEAD, { kind: "tenant", node, tenant, label: said(tenant), folded, lanes: folded ? ids : new Set() });
    if (!folded) for (const row of streams(lanes, families)) add(Math.round(LANE * factor), { kind: "lane", node, tenant, ...row });
    skip(Math.round(7 * factor));
  }
  for (const family of status.families.filter((one) => !one.gpu)) {
    const lanes = all.filter((lane) => lane.family === family.name && shown.includes(lane.tenant));
    if (!lanes.length) continue;
    add(TITLE, { kind: "title", label: family.title });
    for (const tenant of shown) {
      const own = lanes.filter((lane) => lane.tenant === tenant);
      if (own.length && known(tenant)) add(Math.round(THIN * factor), { kind: "thin", tenant, label: said(tenant), lanes: new Set(own.map((lane) => lane.id)) });
    }
    // Whoever has no work on a GPU is of interest together, as what the others ran beside.
    const others = lanes.filter((lane) => !known(lane.tenant));
    if (others.length) add(Math.round(THIN * factor), { kind: "thin", tenant: null, label: `others (${new Set(others.map((lane) => lane.tenant)).size})`, lanes: new Set(others.map((lane) => lane.id)) });
    skip(6);
  }
}

function streams(lanes, families) {
  const processes = [...new Set(lanes.map((lane) => lane.pid).filter((pid) => pid !== null))].sort((a, b) => a - b);
  const rank = (lane) => [lane.shared ? 1 : 0, lane.pid ?? 0, families.get(lane.family).streams ? 0 : 1, lane.stream === null ? 1 : 0, Number(lane.stream ?? 0)];
  const sorted = [...lanes].sort((one, other) => {
    const [a, b] = [rank(one), rank(other)];
    const at = a.findIndex((part, i) => part !== b[i]);
    return at < 0 ? 0 : a[at] - b[at];
  });
  const seen = new Map();
  return sorted.map((lane) => {
    let label = "no stream";
    if (lane.shared) label = "other streams";
    else if (!families.get(lane.family).streams) label = families.get(lane.family).title;
    else if (lane.stream !== null) {
      const number = (seen.get(lane.pid) ?? 0) + 1;
      seen.set(lane.pid, number);
      label = `stream ${number}`;
    }
    const pid = processes.length > 1 && !lane.shared ? ` · ${lane.pid}` : "";
    return { label: label + pid, lanes: new Set([lane.id]), family: lane.family };
  });
}
