"""What a server that cheats needs of a Spec, and what an audit of it is."""

from __future__ import annotations

import pytest

import foltr_audit as fa
from foltr_audit.errors import UsageError

TWICE = "secure-aggregation:once=false"


def spec(server: str, *defense: str, **more: object) -> fa.Spec:
    return fa.Spec(
        data={"source": "synthetic:mq2007:40"},
        population={"clients": 30, "cohort": 10},
        train={"rounds": 1, "server": server},
        defense=list(defense),
        **more,
    )


@pytest.mark.parametrize(
    ("server", "defense", "colluders"),
    [
        ("saturate", (), None),
        ("flatten", ("secure-aggregation",), None),
        ("sybils:share=.29", ("secure-aggregation",), 2),
        ("sybils:share=.999", (), 9),
        ("replay", (), 9),
        ("replay", ("secure-aggregation",), None),
        ("replay", (TWICE,), 9),
    ],
)
def test_an_audit_sees_what_the_server_can_take_out_of_a_sum(
    server: str, defense: tuple[str, ...], colluders: int | None
) -> None:
    made = spec(server, *defense, audit={})
    assert made.audit is not None
    assert made.audit.colluders == colluders
    seen = "aggregate" if colluders is None else "colluding"
    assert made.audit.views == (seen, f"{seen}+lists")
    assert made.trace.message == "update"
    assert fa.Spec.from_toml(made.toml) == made


@pytest.mark.parametrize(
    "audit", [{"views": ["individual"]}, {"views": ["aggregate"]}, {"views": ["colluding"], "colluders": 3}]
)
def test_an_audit_of_something_else_is_refused(audit: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="expected --view colluding"):
        spec("sybils:share=.5", audit=audit)


def test_a_sum_of_everybody_is_audited_as_that() -> None:
    with pytest.raises(UsageError, match=r"expected --view aggregate and aggregate\+lists, or neither"):
        spec("flatten", audit={"views": ["colluding"]})


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
