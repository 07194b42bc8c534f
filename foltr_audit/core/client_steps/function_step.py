"""Client steps from plain functions on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from pydantic import ConfigDict

from foltr_audit.core.plugins.client_step import ClientStep
from foltr_audit.core.rankers import FirstLayer
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Floats

StepFunction = Callable[[Floats, Floats, Floats], Floats]
"""`step(model (P,), features (L, d), clicks (L,)) -> update (P,)`."""

ScoreFunction = Callable[[Floats, Floats], Floats]
"""`score(model (P,), features (L, d)) -> scores (L,)`."""


class FunctionStep(ClientStep):
    """A client step that calls a function of the user's.

    Attributes:
        function: computes the update of one click pattern, or of several at once (`batched`).
        parameters: number of parameters P, if known.
        scorer: computes scores of documents, if there is one.
        layer: where the first layer lies, if there is one.
        title: what reports call it.
        batched: whether the function takes clicks (H, L) and returns updates (H, P).
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    name: ClassVar[str] = "function"

    function: Callable[..., object]
    parameters: int | None = None
    scorer: Callable[..., object] | None = None
    layer: FirstLayer | None = None
    title: str = ""
    batched: bool = False

    @property
    def text(self) -> str:
        """The name of the function, or the `title`."""
        return self.title or title_of(self.function)

    @property
    def label(self) -> str:
        """As `text`."""
        return self.text

    @property
    def gives_scores(self) -> bool:
        """Whether there is a `scorer`."""
        return self.scorer is not None

    @property
    def first_layer(self) -> FirstLayer | None:
        """See `ClientStep`."""
        return self.layer

    def why_not(self, parameters: int, features: int) -> str | None:
        """Also refuses models of another number of parameters."""
        if self.parameters is not None and self.parameters != parameters:
            return f"it is of {self.parameters} parameters, not {parameters}"
        return super().why_not(parameters, features)

    def updates(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """See `ClientStep`; without `batched` the function is called for one pattern after another."""
        if self.batched:
            return np.asarray(self.function(model, features, clicks), dtype=np.float64)
        # The function gets copies: what it changes in place for one pattern must not reach the next.
        found = [
            np.asarray(self.function(model.copy(), features.copy(), row.copy()), dtype=np.float64)
            for row in clicks
        ]
        return np.stack(found) if found else np.zeros((0, model.size))

    def scores(self, model: Floats, features: Floats) -> Floats:
        """See `ClientStep`."""
        if self.scorer is None:
            return super().scores(model, features)
        return np.asarray(self.scorer(model, features), dtype=np.float64).reshape(-1)


def title_of(function: object) -> str:
    """The name of a function for reports, e.g. `my_learner.step`."""
    name = getattr(function, "__qualname__", type(function).__name__)
    module = getattr(function, "__module__", "")
    return f"{module}.{name}" if module and not module.startswith("foltr_audit.") else str(name)


def numpy_step(
    function: StepFunction,
    parameters: int | None = None,
    *,
    batched: bool = False,
    scores: ScoreFunction | None = None,
    first_layer: FirstLayer | None = None,
) -> ClientStep:
    """A client step from a function on NumPy arrays; also for functions that use `autograd.numpy`.

    Args:
        function: `function(model, features, clicks) -> update`, with float64 arrays (P,), (L, d), (L,) and
            (P,). The update is the local model minus the global one, before clips and noise. L is the length
            of the list, without padding; `clicks` holds 0 and 1, for attacks that relax clicks also numbers
            between.
        parameters: number of parameters P; traces with another number are refused.
        batched: the function takes clicks (H, L) of several patterns at once, and returns updates (H, P).
        scores: `scores(model, features) -> scores` with arrays (P,), (L, d) and (L,), for attacks that
            compare scores.
        first_layer: where the first layer's weights lie in the model, for attacks on single units.

    Example:
        >>> import numpy as np
        >>> import foltr_audit as fa
        >>> def step(model, features, clicks):
        ...     return 0.1 * features.T @ (clicks - clicks.mean())
        >>> fa.numpy_step(step, parameters=2)(np.zeros(2), np.eye(2), np.array([1.0, 0.0]))
        array([ 0.05, -0.05])
    """
    return FunctionStep(
        function=function, parameters=parameters, batched=batched, scorer=scores, layer=first_layer
    )


def as_client_step(given: object, title: str = "") -> ClientStep:
    """The client step that a user means: one, a class of one, or a plain function as in `numpy_step`.

    Raises:
        UsageError: it is none of these.
    """
    if isinstance(given, ClientStep):
        return given
    if isinstance(given, type) and issubclass(given, ClientStep):
        return given()
    if callable(given):
        return FunctionStep(function=given, title=title)
    raise UsageError(f"client step: {given!r}; expected a function or a ClientStep")
