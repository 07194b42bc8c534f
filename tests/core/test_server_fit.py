"""What a server that cheats needs of a Spec, and what an audit of it is."""

from __future__ import annotations

import pytest

import foltr_audit as fa
from foltr_audit.errors import UsageError


def spec(server: str, *defense: str, **more: object) -> fa.Spec:
    return fa.Spec(
        data={"source": "synthetic:mq2007:40"},
        population={"clients": 30, "cohort": 10},
        train={"rounds": 1, "server": server},
        defense=list(defense),
        **more,
    )


@pytest.mark.parametrize("server", ["saturate", "flatten", "sybils:share=.29", "replay"])
def test_an_audit_looks_at_the_sums_that_the_server_reads(server: str) -> None:
    made = spec(server, "secure-aggregation", audit={})
    assert made.audit is not None
    assert made.audit.views == ("aggregate", "aggregate+lists")
    assert made.trace.message == "update"
    assert fa.Spec.from_toml(made.toml) == made


@pytest.mark.parametrize("server", ["saturate", "sybils:share=.5", "replay", "differencing", "honest"])
@pytest.mark.parametrize(
    "audit", [{"views": ["individual"]}, {"views": ["aggregate"]}, {"views": ["colluding"], "colluders": 3}]
)
def test_every_view_of_a_server_can_be_audited(server: str, audit: dict[str, object]) -> None:
    made = spec(server, audit=audit)
    assert made.audit is not None
    assert list(made.audit.views) == audit["views"]


def test_a_broken_field_beside_an_audit_is_named_itself() -> None:
    with pytest.raises(UsageError, match="cohort=10"):
        fa.Spec(population={"clients": 5, "cohort": 10}, train={"server": "replay"}, audit={})
    with pytest.raises(UsageError, match="no-such"):
        spec("replay", "no-such", audit={})


@pytest.mark.parametrize("protocol", ["membership", "unlearning"])
def test_other_protocols_know_honest_servers(protocol: str) -> None:
    with pytest.raises(UsageError, match="honest servers"):
        spec("flatten", **{protocol: {}})


def test_its_own_clients_are_colluders() -> None:
    """The same trials, whether the server or others run the clients whose noise it knows."""
    noise, few = "clip:norm=1,of=update,at=message,ord=1+gamma-laplace:eps=1,sensitivity=2", {"trials": 60}
    protocol = {"units": ["client"], "canaries": ["message"], "models": ["first"], **few}
    cheating = fa.audit(spec("sybils:share=.5", noise, audit=protocol))
    made = spec("honest", noise, audit=protocol | {"views": ["colluding"], "colluders": 5})
    honest = fa.audit(made.model_copy(update={"trace": made.trace.model_copy(update={"message": "update"})}))
    measured, expected = ([row["eps_lower"] for row in each.results] for each in (cheating, honest))
    assert measured == expected
    assert measured
