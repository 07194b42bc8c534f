"""How long the cells that are left will take, from what cells of their sort took."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from foltr_audit.core.spec.experiment import Spec

Sort = tuple[object, ...]


def sort_of(spec: Spec) -> Sort:
    """What cells of about the same cost have in common.

    Plug-ins count and their numbers do not: another epsilon is other noise, and no other work.
    """
    chain = tuple(text.partition(":")[0] for text in spec.defense)
    protocols = (spec.attack is None, spec.audit is None)
    return (*protocols, spec.train.learner.partition(":")[0], spec.population.scenario, chain)


def first_of_each_sort(specs: Sequence[Spec]) -> list[int]:
    """An order of the cells in which every sort is met early, so that soon all costs are known."""
    seen: set[Sort] = set()
    new: list[int] = []
    known: list[int] = []
    for number, spec in enumerate(specs):
        sort = sort_of(spec)
        (known if sort in seen else new).append(number)
        seen.add(sort)
    return new + known


class PaceEstimator:
    """Seconds that cells took, by sort; a sort that none is known of counts as the mean of the others."""

    def __init__(self, specs: Sequence[Spec]) -> None:
        """No cell is done yet."""
        self._left = Counter(sort_of(spec) for spec in specs)
        self._seconds: defaultdict[Sort, list[float]] = defaultdict(list)

    def skip(self, spec: Spec) -> None:
        """A cell need not be run; that says nothing about the speed."""
        self._left[sort_of(spec)] -= 1

    def ran(self, spec: Spec, seconds: float) -> None:
        """A cell took a worker so many seconds."""
        self._left[sort_of(spec)] -= 1
        self._seconds[sort_of(spec)].append(seconds)

    def left(self, busy: int) -> float:
        """Seconds until all is done by so many workers; infinite where nothing has been run.

        >>> from foltr_audit.core.spec.experiment import Spec
        >>> cells = [Spec.parse({"repetition": run}, "") for run in range(5)]
        >>> pace = PaceEstimator(cells)
        >>> pace.skip(cells[0]); pace.ran(cells[1], 6.0)
        >>> pace.left(busy=2)
        9.0
        """
        means = {sort: sum(values) / len(values) for sort, values in self._seconds.items()}
        if not means:
            return math.inf
        usual = sum(means.values()) / len(means)
        return sum(count * means.get(sort, usual) for sort, count in self._left.items()) / max(1, busy)
