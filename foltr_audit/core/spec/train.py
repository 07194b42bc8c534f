"""The `train` and `trace` tables of a Spec: the training of the global model, and what is recorded."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from foltr_audit.core.pdgd import PDGD_SETTINGS
from foltr_audit.core.plugins import ClickModel, Learner
from foltr_audit.core.plugins.registry import canonical
from foltr_audit.core.rankers import ranker_text
from foltr_audit.core.spec.base import SpecTable


def default_learner(*, attacks: bool) -> str:
    """The default learner: PDGD as published, or with `attacks` as in the attack experiment."""
    if not attacks:
        return "fpdgd"
    setting = PDGD_SETTINGS["pham-2022"]
    return f"fpdgd:pairs={setting.pairs},normaliser={setting.normaliser}"


class TrainSpec(SpecTable):
    """How the global model is trained.

    Attributes:
        learner: text of a learner plug-in.
        ranker: `linear`, or `neural:hidden=H` with one hidden layer of H units (`,layers=2`: two).
        rounds: number of federated rounds.
        click_model: how the clients of the training rounds click.
        init: a `.npy` file or Run folder with the first global model; an untrained one if not given.
        no_relevant: how a query without relevant documents counts in nDCG: `zero` or `skip`.
        evaluate_every: offline nDCG is computed every N rounds, and after the last one.
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
        embed_features: whether the features of shown documents are stored as well.
        every: record the messages of rounds 0, K, 2K, ...; 0 for none. Global models and the utility of
            every round are always recorded.
    """

    message: Literal["model", "update"] = "model"
    dtype: Literal["float32", "float64"] = "float32"
    embed_features: bool = False
    every: int = Field(1, ge=0)
