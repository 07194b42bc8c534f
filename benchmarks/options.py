"""How thoroughly to measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BenchmarkOptions:
    """What the command line asked for.

    Attributes:
        quick: tiny sizes that only show that everything runs.
        full: the MSLR-like shape with all its 10,000 queries.
        repetitions: how often each measurement is repeated.
    """

    quick: bool = False
    full: bool = False
    repetitions: int = 7

    @property
    def least(self) -> float:
        """Seconds that one timed turn lasts at least."""
        return 0.0 if self.quick else 0.4

    @property
    def turns(self) -> int:
        """Repetitions of what takes milliseconds to a second."""
        return 2 if self.quick else self.repetitions

    @property
    def processes(self) -> int:
        """Repetitions of a whole process."""
        return 1 if self.quick else min(5, self.repetitions)
