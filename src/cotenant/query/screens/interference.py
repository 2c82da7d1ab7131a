"""The interference matrix of the page."""

from typing import Final

PAIRS_SQL: Final = """SELECT victim, aggressor, slowdown, ci_low, ci_high, p, samples, cause,
       evidence
  FROM interference
 ORDER BY list_position(['evidence', 'maybe', 'none'], evidence), slowdown DESC NULLS LAST
 LIMIT 200"""
