"""COLTR: one sampled list with its clicks evaluates hundreds of candidate rankers at once."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.core.plugins import CentralLearner, CentralResult, Users
from foltr_audit.errors import UsageError
from foltr_audit.simulation.learners.dbgd import kernel_input
from foltr_audit.utils.arrays import Floats, Ints


class COLTR(CentralLearner):
    """Counterfactual online learning to rank with the linear ranker.

    The list is sampled from Plackett-Luce of `scores / tau`. Unclicked documents above the last click cost 1,
    all others 0. Candidates are `theta + step u_m` with unit vectors u_m: those of the last winners, in
    their order, then fresh ones. A candidate wins if `SNIPS + gamma sqrt(Var / k)` of its cost is below that
    of the current ranker, with k shown documents and importance weights of softmaxes without tau; the model
    moves by `learning_rate decay^(updates so far)` times the mean unit vector of the winners.

    Where nobody wins the model, the learning rate and the kept winners stay as they are. So do they after a
    list without a cost, as every ranker has the same estimate, 0, there.

    Published settings: tau 1 for MQ2007 and MSLR, 0.1 for changing intents.

    Source: Zhuang & Zuccon 2020, "Counterfactual online learning to rank", section 3.
    """

    name: ClassVar[str] = "coltr"
    slowness: ClassVar[int] = 50

    learning_rate: float = Field(0.1, gt=0, description="first step size eta")
    decay: float = Field(0.99966, gt=0, le=1, description="what each update multiplies the step size by")
    gamma: float = Field(1.0, ge=0, description="weight of the estimate's standard error")
    tau: float = Field(1.0, gt=0, description="temperature that lists are sampled with")
    step: float = Field(1.0, gt=0, description="distance of candidates from the model")
    candidates: int = Field(499, ge=1, le=1000, description="candidate rankers of an interaction")

    def why_not(self, ranker: str) -> str | None:
        return None if ranker == "linear" else f"it perturbs linear models: expected linear, not {ranker}"

    def first_state(self, parameters: int) -> Floats:
        """No update yet, and -1 for each winner's id; float64 (1 + candidates,)."""
        return np.concatenate([[0.0], np.full(self.candidates, -1.0)])

    def learn(self, users: Users, queries: Ints, parameters: Floats, state: Floats) -> CentralResult:
        """See `CentralLearner.learn`.

        The state holds the number of updates and the ids of the last winners: their round, client and place,
        from which their unit vectors are drawn again. Vectors would take P times as much room in a trace.

        Raises:
            UsageError: a round or a client with a number too large for an id.
        """
        from foltr_audit.kernels.central_learners import CLIENT_BITS, ROUND_BITS, COLTRRules, play_coltr

        clients, number = users.context.clients, users.context.round
        if number >> ROUND_BITS or clients.max(initial=0) >> CLIENT_BITS:
            raise UsageError(
                f"learner coltr: round {number} with clients up to {clients.max(initial=0)}; "
                f"expected less than {1 << ROUND_BITS} rounds and {1 << CLIENT_BITS} interactions in each"
            )
        searched, names, seen = kernel_input(users, queries, "coltr/directions")
        rules = COLTRRules(self.learning_rate, self.decay, self.gamma, self.tau, self.step)
        # Copies: the kernel changes both in place, and the round's record still needs the model before it.
        model, after = np.array(parameters[np.newaxis], dtype=np.float64), np.array(state, dtype=np.float64)
        play_coltr(searched, names, rules, queries, clients, model, after, seen)
        return CentralResult(parameters=model[0], state=after, shown=seen.shown, clicks=seen.clicks)
