"""The `train` and `trace` tables of a Spec: the training of the global model, and what is recorded."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from foltr_audit.core.pdgd import PDGD_SETTINGS
from foltr_audit.core.settings.base import Flag, SpecTable, canonical
from foltr_audit.core.settings.defaults import CLICK_MODELS, LEARNER, SERVER

ZEROS = "zeros"
"""The value of `init` for a model whose parameters are all 0."""

RANDOM_START = "random:"
"""What `init` begins with for a model in a random direction; its norm follows."""


def default_learner(*, attacks: bool) -> str:
    """The default learner: PDGD as published, or with `attacks` as in the attack experiment."""
    if not attacks:
        return LEARNER
    setting = PDGD_SETTINGS["pham-2022"]
    return f"{LEARNER}:pairs={setting.pairs},normaliser={setting.normaliser}"


def start_norm(init: str | None) -> float | None:
    """The norm of a model that starts in a random direction; None for any other start.

    >>> start_norm("random:0.01"), start_norm("zeros")
    (0.01, None)
    """
    if init is None or not init.startswith(RANDOM_START):
        return None
    try:
        return _NORM.validate_python(init.removeprefix(RANDOM_START))
    except ValidationError:
        raise ValueError(
            f"{init[:40]!r}: expected random:NORM with a norm above 0, e.g. random:0.01"
        ) from None


_NORM = TypeAdapter(Annotated[float, Field(gt=0, allow_inf_nan=False)])


def _canonical_start(init: str | None) -> str | None:
    norm = start_norm(init)
    return init if norm is None else f"{RANDOM_START}{norm!r}".removesuffix(".0")


def _canonical_ranker(text: str) -> str:
    from foltr_audit.core.rankers import ranker_text

    return ranker_text(text)


class TrainSpec(SpecTable):
    """How the global model is trained: by a learner plug-in, from `init` or an untrained model."""

    learner: Annotated[str, canonical("learner")] = default_learner(attacks=False)
    ranker: Annotated[str, AfterValidator(_canonical_ranker)] = Field(
        "linear",
        description="linear, or neural:hidden=H,layers=L with L of 1 or 2; neural alone has 64 units in 1 "
        "layer.",
    )
    rounds: int = Field(20, ge=1, le=10_000_000, description="Number of rounds.")
    click_model: Annotated[str, canonical("click model"), Flag("train-click-model")] = Field(
        CLICK_MODELS[0],
        description="How users click in training, or same to train under each attacked click model.",
    )
    init: Annotated[str | None, AfterValidator(_canonical_start)] = Field(
        None,
        description="Start from a model: a .npy file, a Run folder, zeros for parameters of 0, or "
        "random:NORM for a random direction and that norm.",
    )
    no_relevant: Literal["zero", "skip"] = Field(
        "zero", description="How queries without relevant documents count in nDCG: zero or skip."
    )
    no_relevant_online: Annotated[Literal["zero", "skip"] | None, Flag(default="that of --no-relevant")] = (
        Field(None, description="The same of online nDCG alone: zero or skip.")
    )
    server: Annotated[str | None, canonical("server", SERVER), Flag(default=SERVER)] = Field(
        None, description="What the server sends in training rounds; see list servers."
    )
    evaluate_every: int = Field(
        1, ge=1, description="Compute nDCG on the test split after every K rounds and after the last one."
    )

    @property
    def online_no_relevant(self) -> str:
        """How queries without relevant documents count in online nDCG: `zero` or `skip`."""
        return self.no_relevant_online or self.no_relevant


class TraceSpec(SpecTable):
    """What messages look like, and which training rounds' messages are recorded.

    Rounds 0, K, 2K, ... are recorded, or none with `every` 0; global models and the utility of every round
    always are.
    """

    message: Literal["model", "update"] = Field("model", description="What clients send: model or update.")
    dtype: Annotated[Literal["float32", "float64"], Flag("message-dtype")] = Field(
        "float32", description="Type of the numbers in a message: float32 or float64."
    )
    embed_features: bool = Field(
        default=False, description="Store the features of the shown documents in the trace."
    )
    every: Annotated[int, Flag("trace-every")] = Field(
        1, ge=0, description="Record the messages of every K-th training round."
    )
