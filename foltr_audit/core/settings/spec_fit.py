"""What a learner and a server need of the other fields of a Spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Learner, MetricLearner, Server
from foltr_audit.core.plugins.registry import make, make_if_known
from foltr_audit.core.settings.base import with_default
from foltr_audit.core.settings.defaults import SERVER

if TYPE_CHECKING:
    from foltr_audit.core.settings.experiment import Spec


def why_not(spec: Spec) -> str | None:
    """Why the fields of a Spec do not fit each other, or None."""
    return _why_no_learner(spec) or _why_no_protocol(spec) or _why_no_server(spec)


def _why_no_protocol(spec: Spec) -> str | None:
    if spec.attack is not None and spec.attack.target == "training" and spec.trace.every == 0:
        return "target training needs recorded messages; expected no --no-trace"
    if spec.unlearning is not None:
        hidden = DefenseChain(parse_chain(spec.defense)).encoding is not None
        if problem := spec.unlearning.why_not(spec.population.clients, hidden=hidden):
            return f"unlearning: {problem}"
    if spec.membership is not None and spec.population.cohorts == "fixed":
        return "membership: half of the clients train; expected cohorts=sampled, not fixed"
    return None


def _why_no_learner(spec: Spec) -> str | None:
    """Why a Spec does not fit its learner, with the learner's name, or None."""
    learner = make(Learner, spec.train.learner)
    problem = learner.why_not(spec.train.ranker) or DefenseChain(parse_chain(spec.defense)).why_not(learner)
    if problem is None and learner.sends != "models":
        unfit = {
            "poisoning needs": spec.population.poisoning is not None,
            "membership needs": spec.membership is not None,
            "unlearning needs": spec.unlearning is not None,
            "an audit needs": spec.audit is not None,
            "a view of sums needs": spec.attack is not None and spec.attack.sums,
        }
        what = next((what for what, asked in unfit.items() if asked), None)
        problem = what and f"it sends {learner.sends}; {what} messages that are models"
    return problem and f"learner {learner.name}: {problem}"


def with_learner_defaults(table: Mapping[str, object]) -> Mapping[str, object]:
    """A learner that draws as its published program did sees documents in the order of the file, too."""
    train = table.get("train")
    named = train.get("learner") if isinstance(train, Mapping) else getattr(train, "learner", None)
    learner = make_if_known(Learner, named) if isinstance(named, str) else None
    if not isinstance(learner, MetricLearner) or not learner.draws_from_seed:
        return table
    return with_default(table, "data", "document_order", "file")


def with_server_defaults(table: Mapping[str, object]) -> Mapping[str, object]:
    """With a server that isolates one client, updates are sent and sums of training rounds are attacked."""
    train = table.get("train")
    named = train.get("server") if isinstance(train, Mapping) else getattr(train, "server", None)
    server = make_if_known(Server, named) if isinstance(named, str) else None
    if server is None or not server.isolates:
        return table
    table = with_default(table, "trace", "message", "update")
    if table.get("attack") is not None:
        table = with_default(table, "attack", "target", "training")
        table = with_default(table, "attack", "view", "aggregate")
    if table.get("audit") is not None:  # it reads sums
        table = with_default(table, "audit", "views", ("aggregate", "aggregate+lists"))
    return table


def _why_no_server(spec: Spec) -> str | None:
    """Why a Spec does not fit its server, with the server's name, or None."""
    server = make(Server, spec.train.server or SERVER)
    problem = _why_no_choice(spec) if server.chooses else None
    if problem is None and (server.isolates or server.manipulates):
        problem = _why_no_manipulation(spec, server)
    return problem and f"server {spec.train.server}: {problem}"


def _why_no_manipulation(spec: Spec, server: Server) -> str | None:
    """Why a server cannot send other things to some clients than to others, or None."""
    learner = make(Learner, spec.train.learner)
    if learner.sends != "models":
        return f"expected a learner that sends models, not {spec.train.learner}"
    if spec.membership is not None or spec.unlearning is not None:
        return "expected train, attack, audit or compare; other protocols know honest servers"
    if server.manipulates:
        if spec.audit is not None:
            return "expected train, attack or compare; an audit knows true features only"
        if learner.facts.get("normaliser") == "candidates":
            return "it changes the features of shown documents; expected a learner with normaliser=shown"
    return _why_no_sum(spec, server) if server.isolates else None


def _why_no_choice(spec: Spec) -> str | None:
    """Why a server cannot choose who takes part in a round, or None."""
    if spec.membership is not None or spec.unlearning is not None:
        return "expected train, attack or audit; other protocols draw their cohorts"
    if spec.population.rounds_apart > 1 or spec.population.cohorts == "fixed":
        return "its clients take part in any round; expected neither --separation nor --cohorts fixed"
    return None


def _why_no_sum(spec: Spec, server: Server) -> str | None:
    """Why the sums that a server reads do not fit a Spec, or None."""
    if spec.trace.message != "update":
        return (
            "clients start from different models, so sums of models tell nothing; expected --message update"
        )
    if spec.attack is not None and (spec.attack.target, spec.attack.view) != ("training", "aggregate"):
        return "it reads sums of training rounds; expected --target training --view aggregate"
    return None
