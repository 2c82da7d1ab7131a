"""A message comes out as it went in, or not at all."""

import json
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, fields
from typing import Annotated, Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.agent.bounds import Chars, HalfWord, MaxItems
from cotenant.agent.config import Config
from cotenant.agent.process import Nameless, Process
from cotenant.agent.protocol.checks import Malformed, check_of
from cotenant.agent.protocol.codec import Decoder, encode, slices
from cotenant.agent.protocol.reports import (
    LINE_MAX,
    NAME_MAX,
    AttachGap,
    Blind,
    DevicesFound,
    Failed,
    ForksWaited,
    HooksRefused,
    Inspected,
    KernelFound,
    KernelsFound,
    KernelText,
    LibraryReport,
    MapsShared,
    MemoryUnsure,
    Named,
    PointerReport,
    Ready,
    Report,
    Rested,
    RunsMissed,
    Stopped,
    TextsRead,
    TrialReady,
    Trouble,
    Unprobed,
    WorkPassedOver,
)
from cotenant.agent.protocol.requests import (
    Begin,
    ChooseLayers,
    FollowPointers,
    HandedOut,
    HelperSettings,
    Inspect,
    Request,
    Rest,
    Stop,
    TrialDone,
)
from cotenant.identity import Names, TenantRule

U64 = (1 << 64) - 1
PROCESS = Process(101, U64)
NAMES = Names("docker", name="t", labels=(("a", "b"), ("é", "")), confirmed=True)
CONFIG = Config(("team-*/x", "\N{SNOWMAN}"), (TenantRule("lab", path="/team-*"),))
REQUESTS: Decoder[Request] = Decoder(get_args(Request))
REPORTS: Decoder[Report] = Decoder(get_args(Report))

# Of each kind one, as full as it may be.
SENT_BY_RECORDER = [
    Begin(HelperSettings(1 << 24, CONFIG, ("cuda", "io"), {"v1_controller": -1}, "multi")),
    TrialDone(),
    Inspect(7, (PROCESS, Process(0, 0)), (Nameless(PROCESS, U64, 0),)),
    FollowPointers((HandedOut(PROCESS, U64, "cuInit\0\x1b" * 32, 12050, -(1 << 31)),)),
    ChooseLayers(runtime=False),
    Rest({"/docker/a": (1, 65535)}, 3),
    Stop(),
]
SENT_BY_HELPER = [
    MapsShared(("events", "facts"), "session", 1700.5, 0.0),
    HooksRefused({"io": "no such hook"}),
    TrialReady(("cuda",)),
    Ready("nice -10"),
    Failed("cannot", 3),
    Trouble("naming", "cannot open \udcff"),
    WorkPassedOver({"libraries": {"/docker/\\xff": 3}, "names": {}}),
    RunsMissed({"program": 1 << 62}),
    ForksWaited("/kubepods/pod1", 1 << 20, "python3", "placed", 8.7, 1 << 60, (39, 41)),
    Stopped(0),
    Stopped(0, "process 7 keeps its memory locked: end that process"),
    LibraryReport("/tmp/\udcff", 3, {"*": "\udcff"}, ("cuda",), "aa", 1, True, -5),
    LibraryReport("/tmp/lib.so", 0),
    AttachGap("/docker/a", "/tmp/\udcff", 0, (1 << 63) - 1, probed=True),
    Rested(7, done=True),
    Rested(7, False, (Blind("/docker/a", ("cuda", "nccl"), 11),), 13),
    Unprobed((Blind("/docker/a", ("cuda",), 11),), 13),
    PointerReport(101, "cuInit", None),
    PointerReport(101, "cuInit", "points elsewhere"),
    Named("/docker/a", NAMES, 1 << 60),
    DevicesFound(PROCESS, ("GPU-1",), (), mps=True),
    KernelsFound(PROCESS, (KernelFound(U64, 0, "k" * NAME_MAX, True),)),
    TextsRead(PROCESS, "/a", (KernelText(1, "\N{REPLACEMENT CHARACTER}"), KernelText(2, ""))),
    Inspected(0),
    MemoryUnsure((PROCESS,)),
]


def kinds(messages: list[Any]) -> set[type]:
    return {type(message) for message in messages}


def test_every_kind_is_tried_here() -> None:
    assert kinds(SENT_BY_RECORDER) == set(get_args(Request))
    assert kinds(SENT_BY_HELPER) == set(get_args(Report))


@pytest.mark.parametrize("message", SENT_BY_RECORDER)
def test_a_request_comes_out_as_it_went_in(message: Any) -> None:
    assert REQUESTS.decode(encode(message)) == message
    with pytest.raises(Malformed, match="is of no known kind"):
        REPORTS.decode(encode(message))


@pytest.mark.parametrize("message", SENT_BY_HELPER)
def test_a_report_comes_out_as_it_went_in(message: Any) -> None:
    assert REPORTS.decode(encode(message)) == message
    with pytest.raises(Malformed, match="is of no known kind"):
        REQUESTS.decode(encode(message))


@pytest.mark.parametrize("message", [*SENT_BY_RECORDER, *SENT_BY_HELPER])
def test_a_message_cannot_be_changed(message: Any) -> None:
    assert not hasattr(message, "__dict__")
    for field in fields(message):
        with pytest.raises(FrozenInstanceError):
            setattr(message, field.name, None)


def test_names_survive_the_way_between_processes() -> None:
    names = Names("docker", name="t", labels=(("a", "b"),), confirmed=True)
    told = REPORTS.decode(encode(Named("/a", names, 7)))
    assert isinstance(told, Named)
    assert told.names == names


def wire(message: Any, **fields_: Any) -> bytes:
    """A message as it travels, with other values in some of its fields."""
    kind, values = json.loads(encode(message))
    return json.dumps([kind, {**values, **fields_}]).encode()


def without(message: Any, name: str) -> bytes:
    kind, values = json.loads(encode(message))
    del values[name]
    return json.dumps([kind, values]).encode()


NAMED = Named("/a", NAMES, 7)
LABELS = [["k", "v"]] * 65
PLAIN_NAMES = json.loads(encode(NAMED))[1]["names"]

NO_REPORT = [
    (b"", "is no JSON"),
    (b"\xff", "is no JSON"),
    (b"nonsense", "is no JSON"),
    (b"[" * 100_000, "is no JSON"),
    (b'["Inspected",{"number":' + b"9" * 5000 + b"}]", "is no JSON"),
    ('["Ready",{}]'.encode("utf-16"), "is no JSON"),
    (b"{}", "no kind with its fields"),
    (b"7", "no kind with its fields"),
    (b"[]", "no kind with its fields"),
    (b'["Ready"]', "no kind with its fields"),
    (b'["Ready",{},{}]', "no kind with its fields"),
    (b"[7,{}]", "no kind with its fields"),
    (b'[["Ready"],{}]', "no kind with its fields"),
    (b'["Nobody",{}]', "of no known kind: 'Nobody'"),
    (b'["' + b"x" * 1000 + b'",{}]', f"of no known kind: '{'x' * 40}'$"),
    (b'["Ready",[]]', "Ready: is no dict"),
    (b'["Ready",null]', "Ready: is no dict"),
    (b'["Ready",{"more":1}]', "Ready: has not the fields of Ready"),
    (without(NAMED, "key"), "Named: has not the fields of Named"),
    (wire(NAMED, more=1), "Named: has not the fields of Named"),
    (wire(NAMED, key=7), "Named: key: is no str"),
    (wire(NAMED, key=None), "Named: key: is no str"),
    (wire(NAMED, key="x" * (LINE_MAX + 1)), "Named: key: has more than 16384 characters"),
    (wire(NAMED, key="\ud800"), "Named: key: has what is no character"),
    (wire(NAMED, named_ns=-1), "Named: named_ns: is not within 0 and"),
    (wire(NAMED, named_ns=1 << 63), "Named: named_ns: is not within 0 and"),
    (wire(NAMED, named_ns=True), "Named: named_ns: is no int"),
    (wire(NAMED, named_ns=1.0), "Named: named_ns: is no int"),
    (wire(NAMED, names=[]), "Named: names: is no dict"),
    (wire(NAMED, names={}), "Named: names: has not the fields of Names"),
    (wire(NAMED, names={**PLAIN_NAMES, "labels": LABELS}), "names: labels: has more than 64 items"),
    (wire(NAMED, names={**PLAIN_NAMES, "labels": [["k"]]}), "names: labels: has not 2 values"),
    (wire(NAMED, names={**PLAIN_NAMES, "labels": [["k", None]]}), "names: labels: 1: is no str"),
    (wire(NAMED, names={**PLAIN_NAMES, "labels": {"k": "v"}}), "names: labels: is no list"),
    (wire(NAMED, names={**PLAIN_NAMES, "confirmed": 1}), "names: confirmed: is no bool"),
    (wire(NAMED, names={**PLAIN_NAMES, "image": "\udcff"}), "image: has what is no character"),
    (wire(Trouble("naming", ""), of="elsewhere"), "Trouble: of: is none of channel, discovery"),
    (wire(Trouble("naming", ""), of=[]), "Trouble: of: is no str"),
    (wire(Failed("", 3), exit_code=256), "Failed: exit_code: is not within 0 and 255"),
    (wire(SENT_BY_HELPER[0], cost_ns=1), "MapsShared: cost_ns: is no float"),
    (wire(SENT_BY_HELPER[0], cost_ns=-0.5), "MapsShared: cost_ns: is not within"),
    (encode(SENT_BY_HELPER[0]).replace(b"1700.5", b"1e999"), "cost_ns: is not within"),
    (encode(SENT_BY_HELPER[0]).replace(b"1700.5", b"NaN"), "NaN is no number"),
    (encode(SENT_BY_HELPER[0]).replace(b"1700.5", b"Infinity"), "Infinity is no number"),
    (wire(RunsMissed({}), programs=[]), "RunsMissed: programs: is no dict"),
    (wire(RunsMissed({}), programs={"x" * 65: 1}), "programs: has more than 64 characters"),
    (wire(RunsMissed({}), programs={"x": "1"}), "RunsMissed: programs: is no int"),
    (
        wire(RunsMissed({}), programs=dict.fromkeys(map(str, range(1025)), 1)),
        "more than 1024 items",
    ),
    (wire(WorkPassedOver({}), counts={"x": {"y": {}}}), "WorkPassedOver: counts: is no int"),
    (wire(MemoryUnsure(()), processes=[[1]]), "MemoryUnsure: processes: has not 2 values"),
    (wire(MemoryUnsure(()), processes=[[1, 2], [1, 2, 3]]), "processes: has not 2 values"),
    (wire(MemoryUnsure(()), processes=[{}]), "MemoryUnsure: processes: is no list"),
    (wire(MemoryUnsure(()), processes=[[1 << 32, 0]]), "processes: pid: is not within 0 and"),
    (wire(MemoryUnsure(()), processes=[[1, 1 << 64]]), "processes: start_ns: is not within 0 and"),
    (wire(MemoryUnsure(()), processes=[[1, 1]] * 16385), "processes: has more than 16384 items"),
    (
        wire(TextsRead(PROCESS, "/a", ()), texts=[[1, "a"], [1, 2]]),
        "TextsRead: texts: text: is no str",
    ),
    (
        wire(TextsRead(PROCESS, "/a", ()), process=[1, -1]),
        "TextsRead: process: start_ns: is not within",
    ),
]

NO_REQUEST = [
    (wire(ChooseLayers(True), runtime=1), "ChooseLayers: runtime: is no bool"),
    (wire(Rest({}, 0), tenants={"/a": [[]]}), "Rest: tenants: is no int"),
    (wire(Rest({}, 0), tenants={"/a": [-1]}), "Rest: tenants: is not within 0 and"),
    (wire(Rest({}, 0), tenants=[]), "Rest: tenants: is no dict"),
    (wire(Rest({}, 0), number="1"), "Rest: number: is no int"),
    (wire(Inspect(), kernels=[[1, 2, 3, 4]]), "Inspect: kernels: has not 3 values"),
    (wire(Inspect(), kernels=[[[1, 2], 3, "4"]]), "Inspect: kernels: stub: is no int"),
    (wire(Inspect(), kernels=[[[1, "2"], 3, 4]]), "kernels: process: start_ns: is no int"),
    (wire(Inspect(), processes="/proc/1"), "Inspect: processes: is no list"),
    (
        wire(FollowPointers(()), pointers=[[[1, 2], 3, "x" * 257, 1, 1]]),
        "FollowPointers: pointers: name: has more than 256 characters",
    ),
    (
        encode(SENT_BY_RECORDER[0]).replace(b'"probes":"auto"', b'"probes":"all"'),
        "Begin: settings: probes: is none of any, auto, emulated",
    ),
    (
        encode(SENT_BY_RECORDER[0]).replace(b'"exclude":[', b'"exclude":[7,'),
        "Begin: settings: config: exclude: is no str",
    ),
    (
        encode(SENT_BY_RECORDER[0]).replace(b'"attach":"multi"', b'"attach":false'),
        "Begin: settings: attach: is no str",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("data", "why"), NO_REPORT)
def test_what_is_no_report_is_one_error(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        REPORTS.decode(data)


@pytest.mark.parametrize(("data", "why"), NO_REQUEST)
def test_what_is_no_request_is_one_error(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        REQUESTS.decode(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=30,
)
EACH = [(REQUESTS, message) for message in SENT_BY_RECORDER]
EACH += [(REPORTS, message) for message in SENT_BY_HELPER]


def survives(decoder: Decoder[Any], data: bytes) -> None:
    """It is a message, which goes round again, or one error of a line."""
    try:
        message = decoder.decode(data)
    except Malformed as error:
        text = str(error)
        assert len(text) < 200
        assert text.isprintable()
    else:
        assert decoder.decode(encode(message)) == message


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_one_error(data: bytes) -> None:
    survives(REQUESTS, data)
    survives(REPORTS, data)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(EACH), st.data())
def test_any_value_in_any_field_is_a_message_or_one_error(each: Any, data: Any) -> None:
    decoder, message = each
    kind, values = json.loads(encode(message))
    place: Any = values
    key: Any = None
    # Down to some depth, and there something else.
    while isinstance(place, dict | list) and place:
        key = data.draw(
            st.sampled_from(list(place) if isinstance(place, dict) else range(len(place)))
        )
        if not isinstance(place[key], dict | list) or not data.draw(st.booleans()):
            break
        place = place[key]
    if key is not None and place:
        place[key] = data.draw(JSON)
    else:
        values = data.draw(JSON)
    survives(decoder, json.dumps([kind, values]).encode())


@settings(deadline=None)
@given(st.sampled_from(EACH), st.integers(0), st.integers(0, 255))
def test_any_byte_changed_is_a_message_or_one_error(each: Any, place: int, byte: int) -> None:
    decoder, message = each
    data = bytearray(encode(message))
    data[place % len(data)] = byte
    survives(decoder, bytes(data))


def test_a_message_leaves_nothing_without_bound() -> None:
    @dataclass(frozen=True, slots=True)
    class Numbered:
        number: HalfWord

    assert check_of(Numbered)([{"number": 7}]) == [Numbered(7)]
    for hint in (
        str,
        int,
        float,
        tuple[bool, ...],
        Annotated[tuple[str, ...], MaxItems(3)],
        Annotated[Mapping[str, bool], Chars(3)],
        Annotated[Mapping[str, bytes], Chars(3), MaxItems(3)],
    ):
        with pytest.raises(TypeError, match=r"declare its|no message can hold"):
            check_of(hint)


def test_lists_are_cut_by_the_bytes_of_what_is_in_them() -> None:
    items = ["\N{REPLACEMENT CHARACTER}" * 256] * 257
    parts = list(slices(items))
    assert [item for part in parts for item in part] == items
    assert max(len(json.dumps(part)) for part in parts) < 1 << 17
    assert [len(part) for part in slices(["x" * 200_000, 1, 2, 3])] == [1, 3]
    assert list(slices([])) == []


def test_many_short_items_come_in_few_parts() -> None:
    texts = [KernelText(number, "k" * 100) for number in range(24_001)]
    parts = list(slices(texts))
    assert [text for part in parts for text in part] == texts
    assert len(parts) < 60
    assert max(len(encode(TextsRead(PROCESS, "/a", part))) for part in parts) < (1 << 16) + 100
