"""`foltr-audit calibrate`: the noise that meets a target, by mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from foltr_audit.cli.output import print_line, stdout_console, warn
from foltr_audit.core.spec.base import DELTA, UNIT, VIEW
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.privacy.accounting import AccountingContext


def calibrate(
    target_eps: Annotated[float, typer.Option("--target-eps", help="Epsilon that has to be proven.")],
    delta: Annotated[
        float, typer.Option("--delta", help="Delta that goes with it; 0 for a pure epsilon.")
    ] = DELTA,
    unit: Annotated[
        str, typer.Option("--unit", help="What neighbours differ in: click, interaction, query or client.")
    ] = UNIT,
    view: Annotated[
        str,
        typer.Option(
            "--view", help="What the server sees: individual, aggregate or colluding, each also +lists."
        ),
    ] = VIEW,
    colluders: Annotated[
        int | None,
        typer.Option(
            "--colluders", help="With --view colluding: how many clients tell what they sent. Default: all."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", help="Rounds that the target is for.")] = 1,
    clients: Annotated[int, typer.Option("--clients", help="Clients n of a round.")] = 1000,
    arriving: Annotated[
        int | None, typer.Option("--arriving", help="How many of their messages arrive.")
    ] = None,
    interactions: Annotated[
        int, typer.Option("--interactions", help="Interactions of a client in a round.")
    ] = 1,
    rank_with: Annotated[
        str,
        typer.Option(
            "--rank-with", help="The model that ranks a client's lists: local (default), or global."
        ),
    ] = "local",
    parameters: Annotated[
        int | None, typer.Option("--parameters", help="Coordinates of a message. Default: as --data.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="Take the number of features, for the linear ranker, from this data. "
            "Default: synthetic:mq2007.",
        ),
    ] = None,
    norm: Annotated[float, typer.Option("--norm", help="Radius that models are clipped to.")] = 1.5,
    order: Annotated[
        int | None,
        typer.Option("--ord", help="Norm of the clip, 1 or 2. Default: what each noise builds on."),
    ] = None,
    mechanism: Annotated[
        list[str] | None, typer.Option("--mechanism", help="Only this one; may be given several times.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Show the least noise with which each mechanism provably meets a target, as options for the others.

    Mechanisms that share one noise among all clients stand with secure aggregation: a single message carries
    next to none of it.
    """
    from foltr_audit.auditing.noise_for_target import calibrate as least_noise
    from foltr_audit.auditing.noise_for_target import in_sums, mechanisms
    from foltr_audit.privacy.accounting import AccountingContext
    from foltr_audit.report.tables.calibration import NoiseCalibrationReport

    if parameters is not None and data is not None:
        raise UsageError("--parameters and --data: give one or the other")
    if rank_with not in ("local", "global"):
        raise UsageError(f"--rank-with: {rank_with!r}; expected local or global")
    if colluders is not None and not view.startswith("colluding"):
        raise UsageError("--colluders: expected --view colluding, or colluding+lists")
    situation = AccountingContext(
        view=view,
        unit=unit,
        parameters=_features(data) if parameters is None else parameters,
        shares=clients,
        arriving=arriving,
        colluders=colluders,
        interactions=interactions,
        ranked_with="global" if rank_with == "global" else "local",
        rounds=rounds,
        delta=delta,
    )
    chosen = dict.fromkeys(mechanism or mechanisms())
    summed = _secure_sum(situation)
    found = [
        least_noise(name, target_eps, situation, norm=norm, order=order, wire=summed if in_sums(name) else ())
        for name in chosen
    ]
    report = NoiseCalibrationReport(target=target_eps, situation=situation, found=found)
    if json:
        print_line(report.json())
    else:
        report.print(stdout_console())
    warn(report.warnings)


def _secure_sum(situation: AccountingContext) -> tuple[str, ...]:
    """Secure aggregation where the server gets messages; it opens no smaller sum than are to arrive."""
    from foltr_audit.privacy.observer_views import without_lists

    if without_lists(situation.view) != VIEW:
        return ()  # a view of sums takes for granted that there is something of the kind
    fewest = situation.arriving
    return ("secure-aggregation" if fewest is None else f"secure-aggregation:threshold={fewest}",)


def _features(source: str | None) -> int:
    from foltr_audit.core.spec.experiment import Spec
    from foltr_audit.data.load import load_collection

    table = {} if source is None else {"data": {"source": source}}
    spec = Spec.parse(table, "calibrate")
    return load_collection(spec.data, spec.seed).n_features
