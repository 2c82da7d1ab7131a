"""JSON that is read piece by piece."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.profiles import json_stream
from cotenant.profiles.json_stream import JsonStream
from cotenant.profiles.operations import ProfileError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Dripping(io.BytesIO):
    """Gives a few bytes at a time, whatever is asked for."""

    def __init__(self, text, few):
        super().__init__(text)
        self.few = few

    def read(self, size=-1):
        return super().read(min(size, self.few))


def pairs(text, few=7):
    return list(JsonStream(Dripping(text, few), "FILE", "events").pairs())


@given(
    st.dictionaries(st.text().filter(lambda key: key != "events"), values, max_size=4),
    st.lists(values, max_size=5),
    st.integers(1, 9),
    st.booleans(),
)
def test_pieces_of_any_length_give_what_json_says(others, events, few, ascii_only):
    text = json.dumps(others | {"events": events}, ensure_ascii=ascii_only).encode(
        "utf-8", "surrogatepass"
    )
    found = pairs(text, few)
    expected = json.loads(text.decode("utf-8", "replace"))
    assert [value for key, value in found if key == "events"] == expected.pop("events")
    assert {key: value for key, value in found if key != "events"} == expected


@given(st.binary(max_size=60), st.integers(1, 9))
def test_any_bytes_are_read_or_refused_in_one_line(text, few):
    said = []
    try:
        pairs(text, few)
    except ProfileError as error:
        said = str(error).splitlines()
    assert len(said) <= 1


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b'{"a"', b'{"events": [1', b'{"a": 1} ]'[:6], b"{1: 2}", b"\x00" * 9]
)
def test_what_is_no_object_or_cut_short_is_refused(text):
    with pytest.raises(ProfileError):
        pairs(text)


def test_deep_nesting_is_refused():
    with pytest.raises(ProfileError):
        pairs(b'{"events": [' + b"[" * 100_000, few=1 << 20)


def test_one_long_value_is_refused(monkeypatch):
    monkeypatch.setattr(json_stream, "_MOST_VALUE", 1000)
    with pytest.raises(ProfileError, match="value of more than"):
        pairs(b'{"a": "' + b"x" * 5000, few=100)


def test_text_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(json_stream, "_MOST_BYTES", 10_000)
    with pytest.raises(ProfileError, match="of text"):
        pairs(b'{"events": [' + b"1, " * 9000, few=100)
