"""The overview of many nodes: what each covers and lacks, and how long its GPUs had work."""

from typing import Final

from cotenant.query.questions.loader import find

MANY: Final = 8  # Nodes; of more, an overview comes before any timeline.

_GPUS: Final = """WITH reached AS (
    SELECT node, gpu, start_ns, end_ns,
           max(end_ns) OVER (
               PARTITION BY node, gpu ORDER BY start_ns, end_ns
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ) AS reached_ns
      FROM queued
),
twice AS (
    SELECT node, gpu, sum(greatest(least(reached_ns, end_ns) - start_ns, 0)) AS shared_ns
      FROM reached
     GROUP BY ALL
),
gpus AS (
    SELECT b.node, b.gpu, sum(b.queued_ns) - coalesce(any_value(t.shared_ns), 0) AS queued_ns
      FROM queued_time b
      LEFT JOIN twice t ON t.node = b.node AND t.gpu IS NOT DISTINCT FROM b.gpu
     GROUP BY ALL
)
SELECT node, count(*) AS gpus,
       sum(least(queued_ns, time_ns)) / sum(time_ns) AS share
  FROM gpus
  JOIN looked_at USING (node)
 GROUP BY node"""


def questions() -> dict[str, str]:
    """The SQL of each part of the overview, by its name."""
    named = {name: find(name).render() for name in ("node_coverage", "slow_nodes")}
    return {"coverage": named["node_coverage"], "slow": named["slow_nodes"], "gpus": _GPUS}
