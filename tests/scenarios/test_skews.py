"""Clients that are not alike: groups, names, sizes and refusals, by other routes than the code's."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import comb

import numpy as np
import pytest
from foltr_audit.scenarios.skews import LabelSkew, QuantitySkew
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.core.plugins import Population, Scenario, ScenarioContext, Trait, TraitValue
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import UsageError

AROUND = ScenarioContext(intents=4, largest_label=2, interactions=4, total=400)

SKEWS = ("intent-skew", "label-skew", "click-skew", "quantity-skew")


def population(*texts: str, around: ScenarioContext = AROUND) -> Population:
    found = Population()
    for text in texts:
        found = make(Scenario, text).population(found, around)
    return found


def values(text: str, around: ScenarioContext = AROUND) -> tuple[TraitValue, ...]:
    (trait,) = population(text, around=around).traits
    return trait.values


def grades(text: str, largest: int) -> list[tuple[int, ...] | None]:
    return [value.grades for value in values(text, AROUND._replace(largest_label=largest))]


# --- populations ----------------------------------------------------------------------------------

TRAITS = st.lists(st.integers(1, 4), max_size=4)


def made(sizes: list[int]) -> Population:
    """Traits a, b, ... with values a0, a1, ...; b0, ..."""
    traits = []
    for letter, size in zip("abcd", sizes, strict=False):
        named = tuple(TraitValue(name=f"{letter}{number}") for number in range(size))
        traits.append(Trait(name=letter, values=named))
    return Population(traits=tuple(traits))


@given(sizes=TRAITS, clients=st.integers(0, 500), first=st.integers(0, 10**12))
def test_groups_of_neighbours_are_even_within_one(sizes: list[int], clients: int, first: int) -> None:
    made_of = made(sizes)
    group = made_of.group_of(np.arange(first, first + clients))
    counts = np.bincount(group, minlength=made_of.n_groups)
    assert counts.size == made_of.n_groups == int(np.prod(sizes))
    assert counts.sum() == clients
    assert counts.max() - counts.min() <= 1


@given(sizes=TRAITS)
def test_the_groups_are_every_combination_once_in_the_order_of_their_names(sizes: list[int]) -> None:
    made_of = made(sizes)
    clients = np.arange(3 * made_of.n_groups)
    own = made_of.own(clients)
    assert len(own) == len(sizes)
    combined = list(zip(*(each.tolist() for each in own), strict=True)) if sizes else [()] * clients.size
    assert Counter(combined) == dict.fromkeys(product(*(range(size) for size in sizes)), 3)
    for client, numbers in zip(clients.tolist(), combined, strict=True):
        name = ", ".join("abcd"[t] + str(v) for t, v in enumerate(numbers)) or "everybody"
        assert made_of.groups[int(made_of.group_of(np.array([client]))[0])] == name
    assert len(set(made_of.groups)) == made_of.n_groups


def test_identical_clients_are_one_group() -> None:
    assert population("uniform") == Population()
    assert Population().groups == ("everybody",)
    assert Population().group_of(np.array([0, 5, 10**12])).tolist() == [0, 0, 0]


def test_a_mixture_names_both_traits_of_every_group() -> None:
    mixed = population("intent-skew", "click-skew:models=perfect/informational")
    assert mixed.n_groups == 8
    first = ("intent 1, perfect clicks", "intent 1, informational clicks", "intent 2, perfect clicks")
    assert mixed.groups[:3] == first
    assert mixed.groups[-1] == "intent 4, informational clicks"
    intent, clicks = mixed.own(np.array([7 + 8 * 5]))
    assert (intent.tolist(), clicks.tolist()) == ([3], [1])


def test_all_four_types_mix() -> None:
    mixed = population(*SKEWS)
    assert [trait.name for trait in mixed.traits] == list(SKEWS)
    assert mixed.n_groups == 4 * 3 * 3 * 5 == len(set(mixed.groups))


def test_a_trait_is_given_once_and_its_values_have_different_names() -> None:
    with pytest.raises(UsageError, match="intent-skew is given twice"):
        population("intent-skew", "click-skew", "intent-skew")
    with pytest.raises(UsageError, match="trait t has value 'same' twice"):
        Trait(
            name="t", values=tuple(TraitValue(name=n, intent=i) for i, n in enumerate(("same", "x", "same")))
        )
    with pytest.raises(UsageError, match="no values"):
        Trait(name="t", values=())
    for name in ("a\\b", "a\nb"):
        with pytest.raises(UsageError, match="expected no backslashes and control characters"):
            Trait(name="t", values=(TraitValue(name=name, intent=0),))


@pytest.mark.parametrize("strength", [-0.001, 1.001, float("nan"), float("inf")])
def test_a_strength_beyond_its_bounds_is_refused(strength: float) -> None:
    with pytest.raises(UsageError, match="expected 0 to 1"):
        Trait(name="t", values=(TraitValue(name="v"),), strength=strength)


# --- the four types -------------------------------------------------------------------------------


def test_intents_are_those_of_the_data() -> None:
    named = {value.name: value.intent for value in values("intent-skew")}
    assert named == {"intent 1": 0, "intent 2": 1, "intent 3": 2, "intent 4": 3}


@pytest.mark.parametrize("largest", range(1, 7))
def test_label_sets_have_their_closed_form_counts(largest: int) -> None:
    n = largest + 1
    single = grades("label-skew", largest)
    disjoint = grades("label-skew:grades=2", largest)
    overlapping = grades("label-skew:grades=2,overlap=true", largest)
    assert (len(single), len(disjoint), len(overlapping)) == (n, -(-n // 2), comb(n, 2))
    assert sorted(g for each in single for g in each or ()) == list(range(n))
    assert sorted(g for each in disjoint for g in each or ()) == list(range(n)), "no grade twice, none lost"
    assert Counter(g for each in overlapping for g in each or ()) == dict.fromkeys(range(n), n - 1)
    assert all(each == tuple(sorted(set(each or ()))) and len(each) == 2 for each in overlapping)


def test_overlap_of_single_grades_changes_nothing() -> None:
    assert grades("label-skew:overlap=true", 4) == grades("label-skew", 4) == [(0,), (1,), (2,), (3,), (4,)]
    names = [value.name for value in values("label-skew:grades=2")]
    assert names == ["grade 0 and 1", "grade 2"]


def test_click_models_are_written_in_full_and_a_kind_given_twice_counts_twice() -> None:
    one_each = values("click-skew:models=informational/perfect")
    assert [value.click_model for value in one_each] == ["informational", "perfect"]
    twice = values("click-skew:models=perfect/perfect/navigational")
    assert [value.click_model for value in twice] == ["perfect", "perfect", "navigational"]
    kinds = ["kind 1: perfect clicks", "kind 2: perfect clicks", "kind 3: navigational clicks"]
    assert [value.name for value in twice] == kinds


def interactions(text: str, own: int = 4) -> list[int]:
    found = [value.interactions for value in values(text, AROUND._replace(interactions=own))]
    assert None not in found
    return [int(size or 0) for size in found]


def test_listed_sizes_stay_as_they_are() -> None:
    assert interactions("quantity-skew", own=99) == [1, 3, 5, 7, 9]
    assert interactions("quantity-skew:batches=2/002/30") == [2, 2, 30]
    names = [value.name for value in values("quantity-skew:batches=1/7")]
    assert names == ["1 interaction", "7 interactions"]


@given(zipf=st.floats(0.05, 10, allow_nan=False), levels=st.integers(1, 100), own=st.integers(1, 500))
def test_zipf_sizes_follow_their_closed_form(zipf: float, levels: int, own: int) -> None:
    sizes = np.array(QuantitySkew(zipf=zipf, levels=levels).sizes(own))
    law = np.arange(1, levels + 1) ** -zipf
    exact = own * levels * law / law.sum()
    assert np.abs(sizes - np.maximum(exact, 1)).max() <= 0.5 + 1e-9
    assert (np.diff(sizes) <= 0).all()
    assert sizes.min() >= 1


def test_zipf_sizes_by_hand() -> None:
    assert interactions("quantity-skew:zipf=1,levels=4", own=25) == [48, 24, 16, 12]  # 100 / (25/12) / j
    assert interactions("quantity-skew:zipf=2,levels=2", own=5) == [8, 2]


@given(
    batches=st.lists(st.integers(1, 10_000), min_size=1, max_size=12),
    zipf=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    levels=st.integers(1, 20),
    own=st.integers(1, 50),
)
def test_the_even_twin_has_as_many_kinds_and_the_same_total(
    batches: list[int], zipf: float, levels: int, own: int
) -> None:
    skew = QuantitySkew(batches="/".join(map(str, batches)), zipf=zipf, levels=levels)
    around = AROUND._replace(interactions=own)
    ((name, text),) = skew.twins(around).items()
    assert name == "evenly dealt"
    twin = make(Scenario, text)
    assert isinstance(twin, QuantitySkew)
    sizes, even = skew.sizes(own), twin.sizes(own)
    assert (len(even), sum(even)) == (len(sizes), sum(sizes))
    assert max(even) - min(even) <= 1
    assert twin.twins(around) == {}
    assert twin.population(Population(), around).n_groups == skew.population(Population(), around).n_groups


@pytest.mark.parametrize("text", ["intent-skew", "label-skew:grades=2", "click-skew:strength=0.5"])
def test_the_twin_of_a_skew_is_the_same_without_strength(text: str) -> None:
    skew = make(Scenario, text)
    ((name, twin),) = skew.twins(AROUND).items()
    (own,), (dealt,) = population(text).traits, population(twin).traits
    assert name == "evenly dealt"
    assert (dealt.values, dealt.strength) == (own.values, 0.0)
    assert make(Scenario, twin).twins(AROUND) == {}


@given(strength=st.floats(0, 1, allow_nan=False), two=st.booleans(), overlap=st.booleans())
def test_the_text_of_a_skew_makes_it_again(strength: float, two: bool, overlap: bool) -> None:
    skew = LabelSkew(strength=strength, grades=2 if two else 1, overlap=overlap)
    again = make(Scenario, skew.text)
    assert isinstance(again, LabelSkew)
    assert (again.grades, again.overlap) == (skew.grades, skew.overlap)
    assert again.strength == pytest.approx(strength, rel=1e-12)


# --- what is refused ------------------------------------------------------------------------------


def test_grades_in_pairs_need_two_grades() -> None:
    with pytest.raises(UsageError, match="label-skew has no values"):
        population("label-skew:grades=2,overlap=true", around=AROUND._replace(largest_label=0))
