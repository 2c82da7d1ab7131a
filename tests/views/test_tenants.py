"""``cotenant tenants``: who is here."""

import json

from cotenant.store.writer import StoreWriter

LOST = "incomplete: 12 of 1,234 cuda events were lost\n"
HEAD = """\
tenant      container     cuda     first  last (UTC)  where
----------  ------------  ----  --------  ----------  -----
ml/train    c0ffee000000     7  14:13:20    14:13:20  pod
slurm/4711  slurm/4711       3  14:14:20    14:14:20  job
"""


def test_tenants_with_events_are_listed_most_active_first(cotenant):
    code, out, err = cotenant("tenants")
    assert code == 0
    assert out == HEAD + "(2 rows; 2026-09-21 14:13:20 to 14:14:20 UTC)\n"
    assert err == "1 cgroup without events; --all lists them\n" + LOST


def test_ids_are_shown_to_those_who_ask(cotenant):
    _, out, _ = cotenant("tenants", "--wide")
    assert out.splitlines()[2].endswith("  pod    4611686018427387847")
    _, out, _ = cotenant("tenants", "--vertical")
    assert "cgroup_id   4611686018427387847" in out.splitlines()


def test_all_lists_tenants_without_events_too(cotenant):
    _, out, err = cotenant("tenants", "--all")
    tenants = [line.split()[0] for line in out.splitlines()[2:-1]]
    assert tenants == ["ml/train", "slurm/4711", "cron.service"]
    assert err == LOST


def test_json_has_exact_numbers_and_whole_ids(cotenant):
    _, out, _ = cotenant("tenants", "--json")
    train, job = json.loads(out)
    assert train == {
        "tenant": "ml/train",
        "container_id": "c0ffee" + "0" * 58,
        "name": None,
        "pod": "train",
        "namespace": "ml",
        "unit": None,
        "slurm_job": None,
        "cgroup_id": 4_611_686_018_427_387_847,
        "first_seen_ns": 1_790_000_000_000_000_000,
        "last_seen_ns": 1_790_000_000_000_000_006,
        "events": train["events"],
    }
    assert train["events"]["cuda"] == 7
    assert (job["tenant"], job["slurm_job"], job["events"]["cuda"]) == ("slurm/4711", "4711", 3)


def test_a_window_counts_only_what_is_in_it(cotenant):
    _, out, _ = cotenant("tenants", "--json", "--from", "2026-09-21T14:14:00")
    assert [row["tenant"] for row in json.loads(out)] == ["slurm/4711"]


def test_an_empty_store_is_answered_in_words(process, tmp_path):
    StoreWriter(tmp_path / "new", node="n", boot_id="b").close()
    code, out, err = process("tenants", "--store", str(tmp_path / "new"))
    assert (code, out, err) == (0, b"nothing was recorded yet\n", "")
