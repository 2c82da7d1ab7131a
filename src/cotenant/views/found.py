"""What a finding costs and how sure it is, in the words that `explain` and reports share."""

from cotenant.query.findings.finding import Finding, milliseconds, percent


def cost(finding: Finding) -> str:
    """In time, if it is time; and what the share is a share of."""
    time = f"{milliseconds(finding.cost_ns)}, " if finding.cost_ns else ""
    return f"{time}{percent(finding.share)} of {finding.base}"


def sure(finding: Finding) -> str:
    """In a word."""
    if finding.confidence >= 0.9:
        return "high"
    return "fair" if finding.confidence >= 0.7 else "low"
