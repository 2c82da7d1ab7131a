"""A process that is killed between two changes of the disk."""

import os
from contextlib import ExitStack, contextmanager
from unittest import mock


class Killed(BaseException):
    """Nothing after this is done, as in a process that was killed."""


CALLS = ("fsync", "link", "mkdir", "rename", "unlink")


@contextmanager
def killed_before(allowed):
    """Of the calls that change the disk only so many are made."""
    made = []

    def instead(real):
        def call(*args, **more):
            if len(made) >= allowed:
                raise Killed
            made.append(args)
            return real(*args, **more)

        return call

    with ExitStack() as stack:
        for name in CALLS:
            stack.enter_context(mock.patch.object(os, name, instead(getattr(os, name))))
        yield
