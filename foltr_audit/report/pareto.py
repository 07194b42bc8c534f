"""Which of several choices are worth a look: those that no other one beats both in privacy and in utility."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

CHANCE = 0.5
"""The AUC of an attack that learns nothing; one below it has been unlucky."""


class Choice(NamedTuple):
    """One choice.

    Attributes:
        leak: AUC of its best attack, lower is better; None where none could run.
        utility: nDCG, higher is better; None where it is not known.
    """

    leak: float | None
    utility: float | None

    @property
    def known(self) -> bool:
        """Whether both are."""
        return self.leak is not None and self.utility is not None

    def beats(self, other: Choice) -> bool:
        """Whether it is as good in both and better in one; a leak below chance counts as chance."""
        if self.leak is None or self.utility is None or other.leak is None or other.utility is None:
            return False
        mine, theirs = max(self.leak, CHANCE), max(other.leak, CHANCE)
        as_good = mine <= theirs and self.utility >= other.utility
        return as_good and (mine < theirs or self.utility > other.utility)


def beaten_by(choices: Sequence[Choice]) -> list[list[int]]:
    """For each choice the numbers of those on the front that beat it, most useful first; empty on the front.

    >>> beaten_by([Choice(0.9, 0.4), Choice(0.6, 0.4), Choice(0.5, 0.1), Choice(0.7, 0.3)])
    [[1], [], [], [1]]
    """
    front = [not any(other.beats(one) for other in choices) for one in choices]
    return [
        sorted(
            (number for number, other in enumerate(choices) if front[number] and other.beats(one)),
            key=lambda number: -(choices[number].utility or 0.0),
        )
        for one in choices
    ]
