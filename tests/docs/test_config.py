"""The example of a configuration is one."""

import re
from dataclasses import fields
from pathlib import Path

from cotenant.agent.config import load_config
from cotenant.identity import TenantRule

PAGE = Path(__file__).parents[2] / "docs/how/config.md"


def test_the_example_is_read_as_the_page_says(tmp_path: Path) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "config.toml"
    file.write_text(example)
    config = load_config(file)
    assert config.exclude == ("team-secret/*", "jupyter-*.service")
    assert config.keep_rollups == "400d"
    assert config.rules == (
        TenantRule("team {label}", label="team"),
        TenantRule("search", label="app.kubernetes.io/part-of=search-*", namespace="prod"),
        TenantRule("{account}/{user}", slurm_account="physics*"),
        TenantRule("batch", path="/batch.slice/*"),
    )


def test_every_key_of_a_rule_has_its_line() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(field.name for field in fields(TenantRule))
