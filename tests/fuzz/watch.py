"""Feeds one input to a reader and says what went wrong: an exception of another kind, time or memory."""

from __future__ import annotations

import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foltr_audit.errors import FoltrAuditError
from tests.fuzz.mutations import Random, generator

Feed = Callable[[Random], None]

MOST_SECONDS = 10.0
MOST_BYTES = 2 << 30


class TooSlowError(BaseException):
    """An input took longer than any may."""


def failures(kind: str, feed: Feed, numbers: range) -> Counter[str]:
    """What went wrong with the inputs of some numbers, and how often."""
    found: Counter[str] = Counter()
    for number in numbers:
        what = failure(feed, generator(kind, number))
        if what is not None:
            found[f"{kind}: {what}"] += 1
    return found


def failure(feed: Feed, rng: Random) -> str | None:
    """What is wrong with how an input was read; None where it was read or refused in one line."""
    start = time.perf_counter()
    try:
        with _bounded(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that no file of ours holds
            feed(rng)
    except FoltrAuditError as error:
        if not str(error).strip():
            return f"an error without a word at {_place(error)}"
    except TooSlowError as error:
        return f"more than {MOST_SECONDS:g} s at {_place(error)}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__} at {_place(error)}: {' '.join(str(error).split())[:100]}"
    if time.perf_counter() - start > MOST_SECONDS:
        return "more than 10 s"
    return None


def _place(error: BaseException) -> str:
    """The innermost line of the package."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame for frame in frames if "/tests/" not in frame.filename and "site-packages" not in frame.filename
    ]
    last = next((frame for frame in reversed(ours) if "/lib/python" not in frame.filename), None)
    return "?" if last is None else f"{'/'.join(Path(last.filename).parts[-2:])}:{last.lineno}"


@contextmanager
def _bounded() -> Iterator[None]:
    """Hold what runs here to some seconds and to so many bytes more than there are."""

    def too_slow(*_: Any) -> None:
        raise TooSlowError

    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MOST_BYTES, before[1]))
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()
