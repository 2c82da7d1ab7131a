"""Equal strings of many processes are kept once, and what they take adds up."""

import pyarrow as pa

from cotenant.agent.recorder.processes.interned import Interned


def test_what_is_released_takes_no_more_and_no_less_than_nothing() -> None:
    interned = Interned()
    texts = ["gemm", "gewöhnlich", "核" * 4000]
    kept = [interned.intern(text, "/a") for text in texts]
    assert interned.intern("gemm", "/b") is kept[0]
    assert set(interned.bytes_of) == {"/a"}
    pa.array(kept)  # Leaves the bytes that it wrote with each string.
    for text in (*texts, "gemm"):
        interned.release(text)
    assert interned.bytes == 0
    assert interned.bytes_of == {}


def test_memory_is_reckoned_with_what_writing_leaves_behind() -> None:
    interned = Interned()
    interned.intern("核" * 4000)
    assert interned.bytes > 4000 * (2 + 3)
