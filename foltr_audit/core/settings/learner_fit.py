"""What a learner needs of the other fields of a Spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Learner
from foltr_audit.core.plugins.registry import make

if TYPE_CHECKING:
    from foltr_audit.core.settings.experiment import Spec


def why_no_learner(spec: Spec) -> str | None:
    """Why a Spec does not fit its learner, with the learner's name, or None."""
    learner = make(Learner, spec.train.learner)
    problem = learner.why_not(spec.train.ranker) or DefenseChain(parse_chain(spec.defense)).why_not(learner)
    if problem is None and learner.sends != "models":
        unfit = {
            "poisoning needs": spec.population.poisoning is not None,
            "membership needs": spec.membership is not None,
            "unlearning needs": spec.unlearning is not None,
            "an audit needs": spec.audit is not None,
            "a view of sums needs": spec.attack is not None and spec.attack.sums,
        }
        what = next((what for what, asked in unfit.items() if asked), None)
        problem = what and f"it sends {learner.sends}; {what} messages that are models"
    return problem and f"learner {learner.name}: {problem}"
