"""No input breaks the parser, and no forged name changes the tenant."""

import json

from hypothesis import given
from hypothesis import strategies as st

from cotenant.identity import parse_file, parse_line, parse_path
from tests.unit.identity.path.fuzz import Forge, attempt, tenant_of

ROUNDS = 2003
SEEDS = st.integers(min_value=0, max_value=2**32)


@given(st.text())
def test_any_text_is_answered(text):
    for parse in (parse_path, parse_line, parse_file):
        assert json.dumps(parse(text).as_json())


@given(SEEDS)
def test_a_path_of_forged_names_is_answered(seed):
    forge = Forge(seed)

    assert parse_path(forge.mutate(forge.base() + forge.suffix()), mounted=True).runtime


@given(SEEDS)
def test_no_forged_inner_name_changes_the_tenant(seed):
    forge = Forge(seed)
    base, suffix = forge.base(), forge.suffix()

    assert tenant_of(base + suffix) == tenant_of(base)


@given(SEEDS)
def test_reading_is_a_function_of_the_text_alone(seed):
    path = Forge(seed).base() + Forge(seed).suffix()

    assert parse_path(path) == parse_path(f"{path} (deleted)")


def test_a_run_of_the_fuzzer_finds_nothing():
    forge = Forge(29)

    assert [finding for _ in range(ROUNDS) if (finding := attempt(forge))] == []
