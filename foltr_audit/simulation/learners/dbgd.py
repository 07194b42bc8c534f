"""DBGD: a random candidate that wins an interleaved comparison draws the model towards it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from foltr_audit.core.plugins import CentralLearner, CentralResult, Users
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.shown_lists import TIES, tie_stream
from foltr_audit.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    from foltr_audit.kernels.central_learners import UserInteractions, UserQueries, UserStreamKeys


def kernel_input(
    users: Users, queries: Ints, direction: str
) -> tuple[UserQueries, UserStreamKeys, UserInteractions]:
    """Data and click model of users, the names of their streams, and empty lists for `queries` (N,).

    `direction` is the purpose of the learner's own random numbers.
    """
    from foltr_audit.kernels.central_learners import UserInteractions, UserQueries, UserStreamKeys

    data, show = users.data, users.streams("show")
    searched = UserQueries(data.features, users.grades, users.lifts, data.offsets, users.click, users.stop)
    names = UserStreamKeys(
        show.round,
        show.purpose_code,
        users.streams(users.clicks).purpose_code,
        users.streams(direction).purpose_code,
        np.uint64(show.key),
        tie_stream(data, users.streams(TIES)),
    )
    shape = (queries.size, LIST_LENGTH)
    return (
        searched,
        names,
        UserInteractions(np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=np.bool_)),
    )


class DBGD(CentralLearner):
    """Dueling bandit gradient descent with the linear ranker.

    Each interaction tries `theta + delta u`, u uniform on the unit sphere. The current and the candidate
    ranking are interleaved; where the candidate gets more credit for the clicks,
    the model becomes `theta + learning_rate u`.

    Team draft (Radlinski, Kurup & Joachims 2008) credits a click to the ranker that picked the document;
    probabilistic interleaving (Hofmann, Whiteson & de Rijke 2011) to both, by how likely each was to.

    Source: Yue & Joachims 2009, "Interactively optimizing information retrieval systems as a dueling bandits
    problem", section 4.
    """

    name: ClassVar[str] = "dbgd"
    slowness: ClassVar[int] = 5
    lists: ClassVar[Literal["sampled", "deterministic", "interleaved"]] = "interleaved"

    delta: float = Field(1.0, gt=0, description="distance delta of the candidate from the model")
    learning_rate: float = Field(0.01, gt=0, description="step size alpha after a win")
    interleaving: Literal["team-draft", "probabilistic"] = Field(
        "team-draft", description="how both rankings become one list"
    )

    def why_not(self, ranker: str) -> str | None:
        return None if ranker == "linear" else f"it perturbs linear models: expected linear, not {ranker}"

    def learn(self, users: Users, queries: Ints, parameters: Floats, state: Floats) -> CentralResult:
        """See `CentralLearner.learn`; there is no state but the model."""
        from foltr_audit.kernels.central_learners import DBGDRules, play_dbgd

        searched, names, seen = kernel_input(users, queries, "dbgd/direction")
        rules = DBGDRules(self.delta, self.learning_rate, self.interleaving == "probabilistic")
        # A copy: the kernel changes it in place, and the round's record still needs the model before it.
        model = np.array(parameters, dtype=np.float64)
        play_dbgd(searched, names, rules, queries, users.context.clients, model, seen)
        return CentralResult(parameters=model, state=state, shown=seen.shown, clicks=seen.clicks)
