"""`foltr-audit calibrate`: compute the noise of each mechanism that meets a target."""

from __future__ import annotations

from foltr_audit.cli.options import Json, option, switch
from foltr_audit.cli.output import show, warn
from foltr_audit.cli.pages import new_app, page
from foltr_audit.core.settings.defaults import DELTA, VIEW

app = new_app()


@app.command(cls=page("calibrate"))
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
    """Find the smallest noise that provably meets a target epsilon, as options of other commands.

    With several --rounds the target is of all of them together, for a client that takes part in those for
    which it is sampled.

    Mechanisms that share one noise among all clients are shown with secure aggregation, since a single
    message carries almost none of it.
    """
    from foltr_audit.experiments.calibrated_noise import calibrated_noise
    from foltr_audit.report.calibrate import NoiseCalibrationReport

    noise = calibrated_noise(
        target_eps,
        delta=delta,
        unit=unit,
        view=view,
        colluders=colluders,
        rounds=rounds,
        clients=clients,
        cohort=cohort,
        separation=separation,
        secret_sample=secret_sample,
        arriving=arriving,
        interactions=interactions,
        rank_with=rank_with,
        parameters=parameters,
        data=data,
        norm=norm,
        order=order,
        mechanisms=mechanism,
    )
    report = NoiseCalibrationReport(noise=noise)
    show(report.json, report.show, json=json)
    warn(report.coded_warnings)
