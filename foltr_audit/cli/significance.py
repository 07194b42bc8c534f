"""`foltr-audit study significance`: test whether recorded systems differ by more than chance."""

from __future__ import annotations

from pathlib import Path

from foltr_audit.cli.options import Json, argument, option, switch
from foltr_audit.cli.output import show
from foltr_audit.cli.pages import new_app, page

app = new_app()


@app.command(cls=page("study significance"))
def significance(
    runs: list[Path] = argument("Folders of --out, each with one or several Runs.", "RUN..."),
    metric: list[str] | None = option(
        "Metric: online_sum, online_mean, the last value of a recorded one, e.g. offline_ndcg@10 (short: "
        "final), or of each period of a changing intent: ndcg_drop@10, ndcg_delta@10, online_mean/period; of "
        "one: online_mean/period 2. May be repeated. Default: final and online_sum, or online_mean if rounds "
        "differ."
    ),
    paired_only: bool = switch("--paired-only", "Leave out Runs without a partner instead of refusing them."),
    json: Json = False,
) -> None:
    """Test each pair of systems for a difference: paired t-test, Bonferroni's correction, effect size.

    Runs that differ only in fold, seed and repetition are one system. Runs are paired if they agree in these.
    """
    from foltr_audit.experiments.runs.systems import read_systems
    from foltr_audit.report.significance import SignificanceReport

    report = SignificanceReport.of(read_systems(runs), metric or (), paired_only=paired_only)
    show(report.json, report.show, json=json)
