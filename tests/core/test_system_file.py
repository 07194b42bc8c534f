"""The file that describes a system: errors name the field, and no file breaks the reader or a check."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foltr_audit.core.declared.all_checks import findings
from foltr_audit.core.declared.declared_system import DeclaredSystem
from foltr_audit.core.declared.system_file import SystemFile, _share_of
from foltr_audit.errors import UsageError
from foltr_audit.privacy.events import MessageAggregation, NoiseAddition, NormBound
from foltr_audit.privacy.noise import parse_law
from tests.fixtures.described_systems import NUMBERS_ONLY, SHARED_LAPLACE, Tables, changed, declared, found_in

TEXT = tomli_w.dumps(SHARED_LAPLACE)


def test_an_empty_file_declares_nothing() -> None:
    assert findings(SystemFile.from_toml("", "empty.toml").system()) == ()


def test_what_a_file_says_in_events() -> None:
    system = declared(SHARED_LAPLACE)
    clip, noise, summed = system.events
    assert clip == NormBound(norm=1.5, ord=1, of="model")
    assert isinstance(noise, NoiseAddition)
    assert noise.law.text == "gamma-share:n=1000,scale=2.5"
    assert summed == MessageAggregation(at_least=1000)
    assert system.sampled == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[clip]\nnrom = 3", "unknown field clip.nrom; did you mean 'norm'?"),
        ("[nosie]\n", "unknown field 'nosie'; did you mean 'noise'?"),
        ("[clip]\nnorm = -3", "clip.norm=-3: input should be greater than"),
        ("[clip]\nnorm = '3'", "clip.norm=3: input should be a valid number"),
        ("[clip]\norder = 3", "clip.order=3: input should be 1 or 2"),
        ("[clip]\nnorm = nan", "clip.norm=nan"),
        ("[claim]\ndelta = 1", "claim.delta=1"),
        ("[claim]\nview = 'server'", "claim.view="),
        ("clip = 3", "clip=3"),
        ("[noise]\nlaw = 'cauchy'", "noise.law='cauchy': expected a law such as laplace:scale=2.5"),
        (
            "[noise]\nlaw = 'laplace:scale=2'\nadded = 'shares'",
            "noise.added=shares: expected accounting.clients",
        ),
        ("schema = 'foltr-audit/system/2'", "schema="),
        ("[clip", "not TOML"),
    ],
)
def test_an_error_names_file_field_and_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        SystemFile.from_toml(text, "their.toml")
    assert str(raised.value).startswith("their.toml: ")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "laplace:scale=2.5",
        "gaussian:sigma=3",
        "skellam:sigma=30,step=0.125",
        "discrete-gaussian:sigma=300,step=0.125",
    ],
)
def test_shares_add_up_to_the_whole_law(text: str) -> None:
    """By their characteristic functions: that of a sum of n shares is the n-th power of one share's."""
    law = parse_law(text)
    assert law is not None
    share = _share_of(law, 100)
    assert 100 * share.variance == pytest.approx(law.variance, rel=1e-9)
    if law.grid == 0 and share.name == "gaussian":
        t = np.array([0.01, 0.1, 0.3])
        one, whole = (np.exp(-0.5 * each.variance * t**2) for each in (share, law))
        assert one**100 == pytest.approx(whole, rel=1e-9)
    if text.startswith("laplace"):
        # Gamma(1/n, s) less another one has (1 + s^2 t^2)^(-1/n), Laplace noise (1 + s^2 t^2)^-1.
        assert share.text == "gamma-share:n=100,scale=2.5"


@pytest.mark.parametrize("text", ["gamma-share:n=10,scale=1", "discrete-gaussian:sigma=1,step=1"])
def test_a_law_without_shares_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^their\.toml: noise\.law=.* of which 1000 shares"):
        SystemFile.parse(changed(SHARED_LAPLACE, noise__law=text), "their.toml")


# --- fuzz -----------------------------------------------------------------------------------------

FIELDS = {
    **{
        name: sorted({*SHARED_LAPLACE.get(name, {}), *NUMBERS_ONLY.get(name, {}), *more})
        for name, more in {
            "clients": ("weights",),
            "message": (),
            "clip": ("of", "when"),
            "noise": (),
            "secure_aggregation": (),
            "accounting": ("delta", "sampled", "formula", "relation"),
            "claim": ("delta",),
            "run": ("sampled", "secret_sample"),
        }.items()
    },
}
LAWS = (
    *("laplace:scale=2.5", "laplace:scale=1e-290", "laplace:scale=1e290", "gaussian:sigma=0.001"),
    *("gaussian:sigma=1e200", "skellam:sigma=30,step=0.125", "discrete-gaussian:sigma=300,step=0.125"),
    *("gamma-share:n=1000,scale=2.5", "skellam:sigma=1,step=1e-9", "laplace", "laplace:scale=0"),
)
WORDS = (
    *(
        "local",
        "global",
        "hidden",
        "shown",
        "model",
        "update",
        "before noise",
        "after noise",
        "client",
        "shares",
    ),
    *(
        "server",
        "add-remove",
        "replace-one",
        "click",
        "interaction",
        "query",
        "classical",
        "analytic",
        "round",
    ),
    *(
        "run",
        "individual",
        "aggregate",
        "colluding",
        "aggregate+lists",
        "published",
        "float32",
        "float64",
        "",
    ),
    "by interactions",
)
VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 5000),
    st.sampled_from([1, 2, 10**9, 10**9 + 1]),
    st.floats(),
    st.sampled_from([1e-30, 1e30, 1e-9, 1e9, 0.0, 0.5, 1.0]),
    st.booleans(),
    st.sampled_from(LAWS),
    st.sampled_from(WORDS),
    st.lists(st.integers(0, 3), max_size=2),
)


@st.composite
def descriptions(draw: st.DrawFn) -> dict[str, Any]:
    """An honest description with some fields replaced by anything."""
    base = draw(st.sampled_from([SHARED_LAPLACE, NUMBERS_ONLY, {}]))
    changes: dict[str, object] = {}
    for _ in range(draw(st.integers(1, 20))):
        table = draw(st.sampled_from(sorted(FIELDS)))
        field = draw(st.sampled_from(FIELDS[table]))
        value = draw(VALUES)
        if draw(st.integers(0, 9)) == 0 or kept(table, field, value):  # else few descriptions are read
            changes[f"{table}__{field}"] = value
    return changed(base, **changes)


def read(text: str) -> DeclaredSystem | None:
    """The system of a text; None where it is refused in one line."""
    try:
        return SystemFile.from_toml(text, "their.toml").system()
    except UsageError as error:
        refusal = str(error)
    assert refusal.startswith("their.toml: ")
    assert "\n" not in refusal
    return None


def kept(table: str, field: str, value: object) -> bool:
    """Whether a value alone is accepted as a field."""
    return read(tomli_w.dumps({table: {field: value}})) is not None


@settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(table=descriptions())
def test_no_value_breaks_the_reader_or_a_check(table: dict[str, Any]) -> None:
    system = read(tomli_w.dumps(table))
    if system is None:
        return
    for finding in findings(system):
        assert finding.right is None or math.isfinite(finding.right)
        assert "nan" not in finding.warning.text


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    start=st.integers(0, len(TEXT)),
    length=st.integers(0, 20),
    added=st.text(st.characters(codec="utf-8"), max_size=20),
)
def test_no_text_breaks_the_reader(start: int, length: int, added: str) -> None:
    read(TEXT[:start] + added + TEXT[start + length :])


EXTREMES: dict[str, tuple[Tables, dict[str, object], set[str]]] = {
    "group of a huge epsilon": (
        NUMBERS_ONLY,
        {"accounting__unit": "interaction", "claim__epsilon": 1e9, "claim__delta": 1e-6},
        {"unit"},
    ),
    "much noise on a secret sample": (
        SHARED_LAPLACE,
        {"noise__law": "gaussian:sigma=1e20", "run__secret_sample": True, "claim__delta": 1e-6},
        set(),
    ),
    "little noise in many rounds": (
        SHARED_LAPLACE,
        {
            "noise__law": "laplace:scale=1e-30",
            "claim__covers": "run",
            "claim__delta": 1e-9,
            "run__rounds": 10**9,
        },
        {"noise scale", "proof", "rounds"},
    ),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_numbers_at_the_ends_of_their_ranges_are_checked(name: str) -> None:
    system, change, checks = EXTREMES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {one.check for one in found_in(changed(system, **change))} == checks
