import multiprocessing
import threading

import pytest

from cotenant import leftovers


def _ends_beside_a_thread(place):
    """Directories that a thread makes while the process ends."""
    began = threading.Event()

    def makes():
        for number in range(100_000):
            try:
                leftovers.make_directory(place / str(number))
            except OSError:
                return
            began.set()

    thread = threading.Thread(target=makes)
    thread.start()
    began.wait()
    leftovers.end()
    thread.join()


def test_a_thread_makes_no_directory_once_the_process_ends(tmp_path):
    child = multiprocessing.get_context("spawn").Process(
        target=_ends_beside_a_thread, args=(tmp_path,)
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_made_is_not_remembered(tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(FileExistsError):
        leftovers.make_directory(tmp_path / "there")
    leftovers.remove()
    assert (tmp_path / "there").exists()
