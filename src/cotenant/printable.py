"""Text that a tenant chose, and that harms no terminal: it must not move our cursor."""


def printable(text: str, but: str = "") -> str:
    """The text with a mark in place of what cannot be printed, but for these characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in but else "\N{REPLACEMENT CHARACTER}" for c in text)
