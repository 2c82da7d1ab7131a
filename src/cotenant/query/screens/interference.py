"""The interference matrix of the page."""

from typing import Final

PAIRS_SQL: Final = """SELECT victim, aggressor, slowdown, ci_low, ci_high, p, samples, cause
  FROM interference
 ORDER BY slowdown DESC NULLS LAST
 LIMIT 200"""
