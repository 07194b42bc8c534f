"""The audit game of unlearning: did these clients take part and leave, or were they never there?"""

from __future__ import annotations

from dataclasses import dataclass

from foltr_audit.auditing.estimators import LowerBound
from foltr_audit.auditing.function_audit import audit_outputs
from foltr_audit.auditing.function_outputs import MOST_NUMBERS, FunctionOutputs
from foltr_audit.core.settings.function_audit import FunctionAuditSpec
from foltr_audit.core.settings.unlearning import UnlearningSpec
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class UnlearningGame:
    """What the models of many trainings tell about clients that left.

    Attributes:
        lower: lower bound on the epsilon between both worlds.
        score: the score of a model that told them apart best, on trainings of its own.
    """

    lower: LowerBound
    score: str


def game_settings(settings: UnlearningSpec, seed: int) -> FunctionAuditSpec:
    """The game as an audit of a function whose output is the model; it says how many trainings there are.

    Half as many as are evaluated teach the scores, and a quarter (60 at least) choose score and threshold.
    """
    return FunctionAuditSpec(
        trials=settings.trials,
        delta=settings.delta,
        confidence=settings.confidence,
        estimator="clopper-pearson",
        seed=seed,
    )


def refuse_too_large(audit: FunctionAuditSpec, methods: int, parameters: int) -> None:
    """Refuse a game whose models do not fit into memory.

    Raises:
        UsageError: all models of all trainings hold too many numbers.
    """
    numbers = 2 * audit.calls * methods * parameters
    if numbers > MOST_NUMBERS:
        raise UsageError(
            f"--trials: {audit.trials}; {methods} methods with {parameters} parameters make {numbers:,} "
            f"numbers; expected {MOST_NUMBERS:,} at most: fewer trials or methods"
        )


def play_game(never: Floats, left: Floats, audit: FunctionAuditSpec) -> UnlearningGame:
    """Tell models (N, P) of federations that the clients left from those (N, P) that they were never in.

    Both worlds answer the request with the same method; in the second one nobody is to be forgotten. So the
    bound is on the epsilon of (epsilon, delta)-unlearning of these clients, with their queries fixed, for an
    observer of the model alone. For any method it is too large with probability 1 - confidence at most, since
    trainings are independent.

    Source: Sekhari, Acharya, Kamath & Suresh 2021, "Remember what you want to forget: algorithms for machine
    unlearning", the definition of (epsilon, delta)-unlearning.
    """
    found = audit_outputs(FunctionOutputs.of_arrays(never, left), audit)
    return UnlearningGame(lower=found.lower, score=found.score)
