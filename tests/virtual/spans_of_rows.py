"""Spans of the rows of a store, one operation after the other: what docs/how/spans.md says.

It knows nothing of batches, and looks at every proof for every operation. What rows do not tell
(events' records, flags of streams, what a thread saw) is not known here.
"""

from collections import defaultdict
from itertools import count
from types import SimpleNamespace

WORK = ("launch", "graph_launch", "memcpy", "memset")
SMALL = 65536
NEVER = 1 << 62

_ROWS = """
select c.tenant, e.*, coalesce(len(list_filter(r.starts, lambda s: s <= e.timestamp_ns)), 0) as era
from cuda_events e
join containers c on c.cgroup_id = e.cgroup_id
left join (select node, list(started_ns) as starts from sessions group by node) r on r.node = e.node
-- Calls that are not recorded have no process, and are in no span.
where coalesce(e.result, 0) = 0 and e.pid is not null
"""


def spans_of_rows(session):
    """Rows as those of the view ``spans``, without what only the recorder knows."""
    processes = defaultdict(list)
    for row in session.ask(_ROWS).rows():
        call = SimpleNamespace(**row)
        call.end_ns = call.timestamp_ns + (call.duration_ns or 0)
        call.key = _stream(call)
        call.copies = call.op == "memcpy" and call.stream is None
        call.small = call.copies and call.direction == "HtoD" and call.bytes <= SMALL
        call.done = call.copies and call.direction in ("DtoH", "HtoD") and not call.small
        call.queued_ns = call.end_ns
        processes[call.node, call.pid, call.era].append(call)
    return [span for calls in processes.values() for span in _of_process(calls)]


def _stream(call):
    """Default streams are those of a context; 2 is one for each thread."""
    number = 0 if call.stream in (None, 0, 1) else -call.tid if call.stream == 2 else call.stream
    return number, None if number > 0 else call.context


def _of_process(calls):
    work = [call for call in calls if call.op in WORK]
    proofs = [call for call in calls if _scope(call)]
    plain = [op for op in work if not op.small]
    queues = defaultdict(list)
    for op in sorted(plain, key=lambda op: op.queued_ns):
        queues[op.cgroup_id, op.key].append(op)
    turns = count()
    for left in queues.values():
        while left:
            proof = min((p for p in proofs if _proves(p, left[0])), key=_order, default=None)
            # What follows is proven with it, as far as the same call proves it.
            for op in [op for op in left if proof is None or _proves(proof, op)]:
                op.proof, op.proven_ns = proof, proof.end_ns if proof else NEVER
                op.turn = next(turns)
                left.remove(op)
    spans = _grouped(plain)
    copies = sorted((op for op in work if op.small), key=lambda op: op.end_ns)
    last = defaultdict(lambda: -NEVER)
    for op in copies:
        op.proof, op.turn = None, next(turns)
        others = [p for p in proofs if _proves(p, op)]
        other = min(others, key=_order, default=None)
        queue = op.cgroup_id, op.context
        pending = any(
            o.proof is None and o.context == op.context and o.timestamp_ns <= op.end_ns
            for o in plain
        )
        if not pending:
            before = [
                s["end_ns"]
                for s in spans
                if s["context"] == op.context and s["first_ns"] <= op.end_ns and s["proven"]
            ]
            own_ns = max(op.end_ns, last[queue], *before) if before else max(op.end_ns, last[queue])
            own_ns += 1500 + op.bytes // 25
            if other is None or own_ns <= other.end_ns:
                op.proof, op.proven_ns = op, own_ns
        if op.proof is None:
            op.proof, op.proven_ns = other, other.end_ns if other else NEVER
        last[queue] = op.proven_ns
    spans += _grouped(copies)
    streams = defaultdict(set)
    for span in spans:
        streams[span["proof"]].add(span["stream"])
    for span in spans:
        span["streams"] = len(streams[span.pop("proof")])
        del span["first_ns"]
    return spans


def _order(proof):
    return proof.end_ns, proof.timestamp_ns


def _scope(call):
    if call.op in ("sync", "query") and "event" not in call.api.lower():
        return "stream" if call.stream is not None else "context"
    return "blocking" if call.done else None


def _proves(proof, op):
    if proof is op:
        return True
    if proof.timestamp_ns < op.queued_ns:
        return False
    scope = _scope(proof)
    if scope == "stream":
        return proof.key == op.key and not op.small
    return proof.context == op.context and (scope == "context" or op.key[0] <= 0)


def _grouped(ops):
    queues = defaultdict(lambda: defaultdict(list))
    for op in ops:
        queues[op.cgroup_id, op.key][id(op.proof) if op.proof else None].append(op)
    spans = []
    for parts in queues.values():
        before = -NEVER
        for own in sorted(parts.values(), key=lambda ops: min(op.turn for op in ops)):
            spans.append(_span(own, before))
            before = spans[-1]["end_ns"]
    return spans


def _span(ops, before):
    first = min(ops, key=lambda op: op.queued_ns)
    proof, began = first.proof, min(op.timestamp_ns for op in ops)
    start = max(began, before)
    copies = [op for op in ops if op.op == "memcpy"]
    return {
        "tenant": first.tenant,
        "cgroup_id": first.cgroup_id,
        "node": first.node,
        "gpu": next((op.gpu for op in ops if op.gpu), None),
        "pid": first.pid,
        "stream": first.key[0],
        "context": first.context,
        "timestamp_ns": start,
        "end_ns": max(first.proven_ns, start),
        "proven": proof is not None,
        "proof_ns": proof and proof.timestamp_ns,
        "waited_ns": proof.duration_ns if proof else 0,
        "proof_api": proof and proof.api,
        "launches": sum(op.weight for op in ops if op.op in ("launch", "graph_launch")),
        "copies": sum(op.weight for op in copies),
        "copied_bytes": sum((op.bytes or 0) * op.weight for op in copies),
        "collectives": sum(op.nccl_op is not None for op in ops),
        "total_extent": sum(_extent(op) * op.weight for op in ops) / 25,
        "shed": sum(op.weight - 1 for op in ops),
        "proof": (proof.timestamp_ns, proof.end_ns, proof.key if proof.small else None)
        if proof
        else None,
        "first_ns": began,
    }


def _extent(op):
    """In 25ths of a thread."""
    if op.op != "launch":
        return max(op.bytes or 0, 25)
    size = 1
    for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"):
        if getattr(op, name) is None:
            return 25
        size *= getattr(op, name)
    return max(25 * size, 25)
