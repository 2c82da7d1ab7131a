"""Commands for the reader to paste into a shell, safe whatever a tenant is called."""

import shlex


def word(text: str) -> str:
    """One quoted word of a command line; control characters become ``$'\\033'``."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def option(name: str, value: str) -> str:
    """``--tenant 'team blue'``; with ``=`` where the value could be taken for an option."""
    return f"{name}{'=' if value.startswith('-') else ' '}{word(value)}"


def ask(question: str, tenant: str) -> str:
    """The command that asks a named question about a tenant."""
    return f"cotenant ask {question} {option('--tenant', tenant)}"
