"""What an operator may say once for a host: who is called what, who is left alone, what is kept.

node = "rack-3-gpu-07"
exclude = ["team-secret/*", "jupyter-*.service"]
keep_rollups = "400d"

[[tenant]]
label = "team"                # every container with this label ...
tenant = "team {label}"       # ... is shown under the label's value
"""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from cotenant.errors import UsageError
from cotenant.identity import TenantRule

DEFAULT: Final = Path("/etc/cotenant/config.toml")
_RULE_KEYS: Final = frozenset(field.name for field in fields(TenantRule))


@dataclass(frozen=True, slots=True)
class Config:
    """A host's configuration; empty where there is none."""

    exclude: tuple[str, ...] = ()
    rules: tuple[TenantRule, ...] = ()
    node: str | None = None  # What this host is called in its store.
    keep_rollups: str | None = None  # As `--keep-rollups`, which comes first.


def load_config(path: Path | None) -> Config:
    """The file that was named, else the host's own if it has one."""
    if path is None:
        if not DEFAULT.exists():
            return Config()
        path = DEFAULT
    try:
        read = tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check --config") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8; convert it") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    return _checked(path, read)


def _checked(path: Path, read: dict[str, Any]) -> Config:
    strangers = sorted(read.keys() - {"exclude", "keep_rollups", "node", "tenant"})
    if strangers:
        raise UsageError(
            f"{path}: unknown key `{strangers[0]}`; expected `node`, `exclude`, `keep_rollups` or "
            "`[[tenant]]`"
        )
    node = read.get("node")
    if node is not None and not isinstance(node, str):
        raise UsageError(f"{path}: `node` must be text: node = 'gpu-07'")
    exclude, rules = read.get("exclude", []), read.get("tenant", [])
    keep_rollups = read.get("keep_rollups")
    if keep_rollups is not None and not isinstance(keep_rollups, str):
        raise UsageError(f'{path}: `keep_rollups` must be a text: keep_rollups = "400d"')
    if not isinstance(exclude, list) or not all(isinstance(p, str) for p in exclude):
        raise UsageError(f"{path}: `exclude` must be a list of patterns: exclude = ['team-a/*']")
    if not isinstance(rules, list):
        raise UsageError(f"{path}: `tenant` must be a list; write `[[tenant]]` above each rule")
    return Config(tuple(exclude), tuple(_rule(path, rule) for rule in rules), node, keep_rollups)


def _rule(path: Path, rule: Any) -> TenantRule:
    if not isinstance(rule, dict) or "tenant" not in rule or len(rule) < 2:
        raise UsageError(f"{path}: a `[[tenant]]` needs `tenant` and at least one key to match")
    if strangers := sorted(rule.keys() - _RULE_KEYS):
        known = ", ".join(f"`{key}`" for key in sorted(_RULE_KEYS))
        raise UsageError(f"{path}: unknown key `{strangers[0]}` in `[[tenant]]`; expected {known}")
    return TenantRule(**{key: str(value) for key, value in rule.items()})
