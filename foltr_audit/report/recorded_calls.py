"""Attacks on recorded runs, from their arguments to the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from foltr_audit.core.client_steps import StepFunction, as_client_step
from foltr_audit.core.plugins import Attack, ClientStep
from foltr_audit.core.plugins.registry import Attacks, texts_of
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.report.results.attack import AttackReport
from foltr_audit.report.results.recorded_attack import recorded_report
from foltr_audit.utils.argument_names import names_arguments


@names_arguments
def attack_trace(
    path: str | Path,
    methods: Attacks | None = None,
    *,
    target: str | None = None,
    data: str | None = None,
    view: str | None = None,
    step: ClientStep | StepFunction | None = None,
    know: Mapping[str, object] | None = None,
) -> AttackReport:
    """Attack a recorded Run or trace that holds its truth, with one attack or several.

    Args:
        path: the folder of a Run or a trace.
        methods: attacks: texts, objects or classes; None for those of its Spec, or the strong ones that fit
            its messages.
        target: of a Run: `fresh` clients or `training` rounds.
        data: path of the data set, if features are not embedded and it has moved.
        view: what the observer sees: `individual` messages; `aggregate`, the sum of each round; `client`, the
            global models before and after it, and the lists of its clients.
        step: what the clients compute from a list and its clicks, if it is not PDGD: a client step such as
            `torch_step` makes, or a function `step(model, features, clicks)` as of `numpy_step`.
        know: facts over those of its header, e.g. `{"learning_rate": 0.1}`.

    Returns:
        A report with one row per attack.

    Raises:
        UsageError: it holds no truth, its data set is missing, or a fact does not exist.
        TraceError: it is damaged, or was recorded on other data.
        PluginError: the step fails, or does not fit the trace.

    Example:
        >>> import foltr_audit as fa
        >>> fa.attack_trace("run", "lad").summary()  # doctest: +SKIP
    """
    chosen = None if methods is None else texts_of(Attack, methods)
    own = None if step is None else as_client_step(step)
    changes = {"methods": chosen, "view": view}
    recorded = TraceAttack.open(
        Path(path), target=target, data=data, changes=changes, know=know, client_step=own
    )
    return recorded_report(recorded)
