"""`foltr-audit calibrate`: compute the noise of each mechanism that meets a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foltr_audit.cli.options import Json, option, switch
from foltr_audit.cli.output import show, warn
from foltr_audit.core.spec.defaults import CLIENT, DELTA, SECURE_AGGREGATION, UNIT, VIEW
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.privacy.accounting import AccountingContext


def calibrate(
    target_eps: float = option("Epsilon that has to be proven.", ...),
    delta: float = option("Delta of that epsilon; 0 for a pure epsilon.", DELTA),
    unit: str | None = option(
        "What neighbouring inputs differ in: click, interaction, query or client. Default: interaction; "
        "client with several --rounds, since an interaction is part of one round."
    ),
    view: str = option(
        "What the server sees: individual, aggregate or colluding, each also with +lists.", VIEW
    ),
    colluders: int | None = option(
        "With --view colluding: number of other clients that collude with the server. Default: all."
    ),
    rounds: int = option("Number of rounds that the target covers.", 1),
    clients: int = option("Number of clients.", 1000, name=("--clients", "--population")),
    cohort: int | None = option("Number of clients sampled for each round. Default: all."),
    separation: int = option("Rounds from one in which a client takes part to its next one, at least.", 1),
    secret_sample: bool = switch(
        "--secret-sample",
        "Assume that whoever looks does not know which clients take part in a round, unlike the server.",
    ),
    arriving: int | None = option("Number of messages that arrive. Default: all."),
    interactions: int = option("Interactions of a client in a round.", 1),
    rank_with: str = option("Model that ranks a client's lists: local or global.", "local"),
    parameters: int | None = option("Number of coordinates of a message. Default: that of --data."),
    data: str | None = option(
        "Data whose number of features is used, for the linear ranker. Default: synthetic:mq2007."
    ),
    norm: float = option("Radius that models are clipped to.", 1.5),
    order: int | None = option(
        "Norm of the clip, 1 or 2. Default: the one that each noise needs.", name="--ord"
    ),
    mechanism: list[str] | None = option("Show only this mechanism. May be repeated. Default: all."),
    json: Json = False,
) -> None:
    """Show the least noise with which each mechanism provably meets a target, as options of other commands.

    With several --rounds the target is of all of them together, for a client that takes part in those for
    which it is sampled.

    Mechanisms that share one noise among all clients are shown with secure aggregation, since a single
    message carries almost none of it.
    """
    from foltr_audit.auditing.noise_for_target import calibrate as least_noise
    from foltr_audit.auditing.noise_for_target import calibrations
    from foltr_audit.privacy.accounting import AccountingContext
    from foltr_audit.report.tables.calibration import NoiseCalibrationReport

    if parameters is not None and data is not None:
        raise UsageError("--parameters and --data: give one or the other")
    if rank_with not in ("local", "global"):
        raise UsageError(f"--rank-with: {rank_with!r}; expected local or global")
    if colluders is not None and not view.startswith("colluding"):
        raise UsageError("--colluders: expected --view colluding, or colluding+lists")
    taking_part = _cohort(clients, cohort)
    able = _able(clients, taking_part, separation)
    situation = AccountingContext(
        view=view,
        unit=unit or (UNIT if rounds == 1 else CLIENT),
        parameters=_features(data) if parameters is None else parameters,
        shares=taking_part,
        arriving=arriving,
        colluders=colluders,
        interactions=interactions,
        ranked_with="global" if rank_with == "global" else "local",
        rounds=rounds,
        separation=separation,
        delta=delta,
        sampled=taking_part / able,
        cohorts="secret" if secret_sample else "known",
    )
    chosen = dict.fromkeys(mechanism or calibrations())
    summed = _secure_sum(situation)
    shared = {name for name, rule in calibrations().items() if rule.in_sum}
    found = [
        least_noise(
            name, target_eps, situation, norm=norm, order=order, wire=summed if name in shared else ()
        )
        for name in chosen
    ]
    report = NoiseCalibrationReport(target=target_eps, situation=situation, clients=clients, found=found)
    show(report.json, report.show, json=json)
    warn(report.warnings)


def _cohort(clients: int, cohort: int | None) -> int:
    """The number of clients in a round."""
    if clients < 1:
        raise UsageError(f"--clients: {clients}; expected at least 1")
    if cohort is not None and not 1 <= cohort <= clients:
        raise UsageError(f"--cohort: {cohort} of {clients} clients; expected 1 to {clients}")
    return clients if cohort is None else cohort


def _able(clients: int, cohort: int, separation: int) -> int:
    """The number of clients that may take part in a round."""
    if not 1 <= separation <= clients // cohort:
        raise UsageError(
            f"--separation: {separation} with cohorts of {cohort} out of {clients} clients; "
            f"expected 1 to {clients // cohort}"
        )
    return clients // separation


def _secure_sum(situation: AccountingContext) -> tuple[str, ...]:
    """Secure aggregation for a server that receives messages; its threshold is the number that arrives."""
    from foltr_audit.privacy.observer_views import without_lists

    if without_lists(situation.view) != VIEW:
        return ()  # a view of sums assumes some secure sum already
    fewest = situation.arriving
    return (SECURE_AGGREGATION if fewest is None else f"{SECURE_AGGREGATION}:threshold={fewest}",)


def _features(source: str | None) -> int:
    from foltr_audit.core.spec.experiment import Spec
    from foltr_audit.data.load import load_collection

    table = {} if source is None else {"data": {"source": source}}
    spec = Spec.parse(table, "calibrate")
    return load_collection(spec.data, spec.seed).n_features
