"""Says on a terminal that kernels are being compiled, which happens when they are first called."""

from __future__ import annotations

import sys
from functools import cache

NOTE = "compiling kernels (first run only) ..."


@cache
def announce_compiling() -> None:
    """Print `NOTE` on stderr when numba begins to compile, if that is a terminal."""
    from numba.core import event

    class Announcement(event.Listener):
        """Prints when the first of many events arrives."""

        said = False

        def on_start(self, _event: object) -> None:
            """A kernel that is in no cache begins to be compiled."""
            if not self.said and sys.stderr is not None and sys.stderr.isatty():
                print(NOTE, file=sys.stderr)  # noqa: T201
            self.said = True

        def on_end(self, _event: object) -> None:
            """Kernels follow each other too fast to be named."""

    event.register("numba:compile", Announcement())  # type: ignore[no-untyped-call]
