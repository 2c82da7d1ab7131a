"""What is installed is what was looked at: exact versions by their hashes, from wherever."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = {"requirements.txt": ("look", "export"), "requirements-dev.txt": ("look", "export", "dev")}

SPARK = "requirements-spark.txt"


def pins(name):
    """Each entry with its hashes."""
    text = (ROOT / name).read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    entries = re.split(r"\n(?=\S)", "\n".join(lines))
    return {
        Requirement(entry.partition(" \\\n")[0]): re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)
        for entry in entries
    }


def chosen(name, python):
    """The version of each package for this Python."""
    there = {"python_full_version": f"{python}.1", "python_version": python, "extra": ""}
    there |= {"sys_platform": "linux", "platform_machine": "x86_64"}
    found = {}
    for pin in pins(name):
        if pin.marker is None or pin.marker.evaluate(there):
            assert canonicalize_name(pin.name) not in found, f"{pin.name} twice for {python}"
            found[canonicalize_name(pin.name)] = pin.specifier
    return found


@pytest.mark.parametrize("name", [*EXTRAS, SPARK])
def test_every_pin_is_one_version_with_hashes_and_no_index(name):
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert "index" not in text
    for pin, hashes in pins(name).items():
        assert re.fullmatch(r"==[^,*]+", str(pin.specifier)), pin
        assert hashes, pin


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", EXTRAS)
def test_the_pins_are_what_the_project_asks_for(name, python):
    project, found = PROJECT["project"], chosen(name, python)
    asked = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    for extra in EXTRAS[name]:
        asked += project["optional-dependencies"][extra]
    for text in asked:
        wanted = Requirement(text)
        version = str(found[canonicalize_name(wanted.name)]).removeprefix("==")
        assert wanted.specifier.contains(version), text


@pytest.mark.parametrize("python", PYTHONS)
def test_spark_is_pinned_beside_what_the_tests_have(python):
    (wanted,) = map(Requirement, PROJECT["project"]["optional-dependencies"]["spark"])
    found, tests = chosen(SPARK, python), chosen("requirements-dev.txt", python)
    assert wanted.specifier.contains(str(found[wanted.name]).removeprefix("=="))
    assert {name: found[name] for name in found.keys() & tests.keys()}.items() <= tests.items()


@pytest.mark.parametrize("python", PYTHONS)
def test_tests_run_with_the_versions_that_are_installed(python):
    assert (
        chosen("requirements.txt", python).items() <= chosen("requirements-dev.txt", python).items()
    )
