"""Which of several choices are worth a look: those that no other one beats both in privacy and in utility."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

CHANCE = 0.5
"""The AUC of an attack that learns nothing; one below it has been unlucky."""

DIGITS = 3
"""That tables print of AUC and nDCG."""


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
        """Whether it is as good in both and better in one; a leak below chance counts as chance.

        Values are compared as they are printed, in three digits: what looks equal is a tie.
        """
        if self.leak is None or self.utility is None or other.leak is None or other.utility is None:
            return False
        mine, theirs = (max(round(one, DIGITS), CHANCE) for one in (self.leak, other.leak))
        gain = round(self.utility, DIGITS) - round(other.utility, DIGITS)
        return mine <= theirs and gain >= 0 and (mine < theirs or gain > 0)


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
