"""What a learner and a server need of the other fields of a Spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Learner, MetricLearner, Server
from foltr_audit.core.plugins.registry import P, make, make_if_known
from foltr_audit.core.settings.base import with_default
from foltr_audit.core.settings.defaults import SERVER

if TYPE_CHECKING:
    from foltr_audit.core.settings.experiment import Spec


def why_not(spec: Spec) -> str | None:
    """Why the fields of a Spec do not fit each other, or None."""
    learner, server = make(Learner, spec.train.learner), make(Server, spec.train.server or SERVER)
    if problem := next(_unfit_for_learner(spec, learner), None):
        return f"learner {learner.name}: {problem}"
    if problem := next(_unfit_protocols(spec), None):
        return problem
    problem = next(_unfit_for_server(spec, server, learner), None)
    return problem and f"server {spec.train.server}: {problem}"


def _unfit_for_learner(spec: Spec, learner: Learner) -> Iterator[str]:
    chain = DefenseChain(parse_chain(spec.defense))
    if problem := learner.why_not(spec.train.ranker) or chain.why_not(learner):
        yield problem
    if learner.sends != "models":
        unfit = {
            "poisoning needs": spec.population.poisoning is not None,
            "membership needs": spec.membership is not None,
            "unlearning needs": spec.unlearning is not None,
            "an audit needs": spec.audit is not None,
            "a view of sums needs": spec.attack is not None and spec.attack.sums,
        }
        for what, asked in unfit.items():
            if asked:
                yield f"it sends {learner.sends}; {what} messages that are models"


def _unfit_protocols(spec: Spec) -> Iterator[str]:
    if spec.attack is not None and spec.attack.target == "training" and spec.trace.every == 0:
        yield "target training needs recorded messages; expected no --no-trace"
    if spec.unlearning is not None:
        hidden = DefenseChain(parse_chain(spec.defense)).encoding is not None
        if problem := spec.unlearning.why_not(spec.population.clients, hidden=hidden):
            yield f"unlearning: {problem}"
    if spec.membership is not None and spec.population.cohorts == "fixed":
        yield "membership: half of the clients train; expected cohorts=sampled, not fixed"


def _unfit_for_server(spec: Spec, server: Server, learner: Learner) -> Iterator[str]:
    twice = spec.membership is not None or spec.unlearning is not None
    if server.chooses:
        if twice:
            yield "expected train, attack or audit; other protocols draw their cohorts"
        if spec.population.rounds_apart > 1 or spec.population.cohorts == "fixed":
            yield "its clients take part in any round; expected neither --separation nor --cohorts fixed"
    if server.isolates or server.manipulates:
        if learner.sends != "models":
            yield f"expected a learner that sends models, not {spec.train.learner}"
        if twice:
            yield "expected train, attack, audit or compare; other protocols assume honest servers"
        yield from _unfit_for_manipulation(spec, server, learner)


def _unfit_for_manipulation(spec: Spec, server: Server, learner: Learner) -> Iterator[str]:
    if server.manipulates:
        if spec.audit is not None:
            yield "expected train, attack or compare; an audit knows true features only"
        if learner.facts.get("normaliser") == "candidates":
            yield "it changes the features of shown documents; expected a learner with normaliser=shown"
    if server.isolates:
        if spec.trace.message != "update":
            yield (
                "clients start from different models, so sums of models tell nothing; "
                "expected --message update"
            )
        if spec.attack is not None and (spec.attack.target, spec.attack.view) != ("training", "aggregate"):
            yield "it reads sums of training rounds; expected --target training --view aggregate"


def _named(table: Mapping[str, object], kind: type[P], field: str) -> P | None:
    """The plug-in that the table `train` names, if it is known."""
    train = table.get("train")
    text = train.get(field) if isinstance(train, Mapping) else getattr(train, field, None)
    return make_if_known(kind, text) if isinstance(text, str) else None


def with_learner_defaults(table: Mapping[str, object]) -> Mapping[str, object]:
    """A learner that draws as its published program did sees documents in the order of the file, too."""
    learner = _named(table, Learner, "learner")
    if isinstance(learner, MetricLearner) and learner.draws_from_seed:
        return with_default(table, "data", "document_order", "file")
    return table


def with_server_defaults(table: Mapping[str, object]) -> Mapping[str, object]:
    """With a server that isolates one client, updates are sent and sums of training rounds are attacked."""
    server = _named(table, Server, "server")
    if server is None or not server.isolates:
        return table
    table = with_default(table, "trace", "message", "update")
    if table.get("attack") is not None:
        table = with_default(table, "attack", "target", "training")
        table = with_default(table, "attack", "view", "aggregate")
    if table.get("audit") is not None:  # it reads sums
        table = with_default(table, "audit", "views", ("aggregate", "aggregate+lists"))
    return table
