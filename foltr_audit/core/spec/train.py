"""The `train` and `trace` tables of a Spec: how the global model is trained, and what is recorded of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from foltr_audit.core.pdgd import PDGD_SETTINGS
from foltr_audit.core.plugins import ClickModel, Learner
from foltr_audit.core.plugins.registry import canonical
from foltr_audit.core.rankers import ranker_text
from foltr_audit.core.spec.base import SpecTable


def default_learner(*, attacks: bool) -> str:
    """The learner where none is named: PDGD as published, or as the attack experiment has it."""
    if not attacks:
        return "fpdgd"
    setting = PDGD_SETTINGS["pham-2022"]
    return f"fpdgd:pairs={setting.pairs},normaliser={setting.normaliser}"


class TrainSpec(SpecTable):
    """How the global model comes to be.

    Attributes:
        learner: text of a learner plug-in.
        ranker: `linear`, or `neural:hidden=H` with one hidden layer of H units (`,layers=2`: two).
        rounds: number of federated rounds.
        click_model: how the clients of the training rounds click.
        init: a `.npy` file or Run folder with the first global model; an untrained one if not given.
        no_relevant: how a query without relevant documents counts in nDCG: `zero` or `skip`.
        evaluate_every: offline nDCG is taken after every so many rounds, and after the last one.
    """

    learner: Annotated[str, canonical(Learner)] = default_learner(attacks=False)
    ranker: Annotated[str, AfterValidator(ranker_text)] = "linear"
    rounds: int = Field(20, ge=1, le=10_000_000)
    click_model: Annotated[str, canonical(ClickModel)] = "perfect"
    init: str | None = None
    no_relevant: Literal["zero", "skip"] = "zero"
    evaluate_every: int = Field(1, ge=1)


class TraceSpec(SpecTable):
    """What messages look like, and which training rounds' messages are recorded.

    Attributes:
        message: the local `model` or its `update`.
        dtype: number format of a message.
        embed_features: the shown documents' features are stored as well.
        every: messages of rounds 0, K, 2K, ... are recorded; 0 for none. Global models and the utility
            are recorded of every round.
    """

    message: Literal["model", "update"] = "model"
    dtype: Literal["float32", "float64"] = "float32"
    embed_features: bool = False
    every: int = Field(1, ge=0)
