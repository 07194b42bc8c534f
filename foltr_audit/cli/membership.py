"""`foltr-audit study membership` and `study unlearning`: what a trained model keeps of its clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from foltr_audit.cli.common import MEMBERSHIP, UNLEARNING, CommonOptions, OtherHelp, shared_but, takes
from foltr_audit.cli.options import FEDERATION
from foltr_audit.cli.output import show, warn
from foltr_audit.cli.pages import new_app, page
from foltr_audit.cli.runs import store

if TYPE_CHECKING:
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.experiments.run import Run
    from foltr_audit.report.plan_report import PlanReport

app = new_app()

_CLIENTS = OtherHelp("population.clients", "Number of clients. Default: 20.", FEDERATION)


@app.command("unlearning", cls=page("study unlearning"))
@takes(*UNLEARNING, _CLIENTS, *shared_but("population.clients"))
def unlearning(common: CommonOptions) -> None:
    """Make a trained model forget clients in several ways, and check whether it has.

    Many federations are trained with these clients, who leave afterwards, and as many without them. For each
    method: nDCG@10, distance to the retrained model, what it costs, and a lower bound on epsilon between
    models that the clients left and models that they were never in. --config takes the Spec of a Run.
    """
    from foltr_audit.report.membership import UnlearningReport

    _run(common, "unlearning", UnlearningReport.of)


_MEMBERS = OtherHelp("population.clients", "Number of members of a federation. Default: 50.", FEDERATION)


@app.command(cls=page("study membership"))
@takes(*MEMBERSHIP, _MEMBERS, *shared_but("population.clients"))
def membership(common: CommonOptions) -> None:
    """Tell from global models who took part in the training: membership inference with shadow federations.

    Federations of the same Spec are trained, each with a random half of the candidates. Every one is attacked
    with the others as shadows. AUC and true positive rates stand beside chance, and beside the most that the
    proof for one client over all rounds leaves to any attack.
    """
    from foltr_audit.report.membership import MembershipReport

    _run(common, "membership", MembershipReport.of)


def _run(common: CommonOptions, protocol: str, report_of: Callable[[Plan, list[Run]], PlanReport]) -> None:
    report, _, _ = store(common.plan(protocol=protocol), common, report_of)
    show(report.json, report.show, json=common.json)
    warn(report.coded_warnings)
