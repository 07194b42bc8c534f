"""Options that come from fields of a Spec: every field has one, and its help names the field's default."""

from __future__ import annotations

import re

import pytest
from foltr_audit.studies.model_merging import MergeSpec

from foltr_audit.cli.common import ATTACK, AUDIT, MEMBERSHIP, SHARED, UNLEARNING
from foltr_audit.cli.options import FieldOption
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.defaults import PROTOCOLS
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.membership import MembershipSpec
from foltr_audit.core.settings.unlearning import UnlearningSpec
from foltr_audit.experiments.plan import apply_changes

OF_PROTOCOLS = (*ATTACK, *AUDIT, *MEMBERSHIP, *UNLEARNING)
FIELDS = tuple(name for name in (*SHARED, *OF_PROTOCOLS) if "." in name or name == "seed")
OTHERWISE = {"schema_", "repetition", "defense", "data.fold", "train.learner", "audit.claim_on"}
"""Fields without an option of their own."""


def test_every_field_has_an_option() -> None:
    tables = dict(zip(PROTOCOLS, (AttackSpec, AuditSpec, MembershipSpec, UnlearningSpec), strict=True))
    names = set()
    for name, field in Spec.model_fields.items():
        inner = tables.get(name) or type(field.get_default(call_default_factory=True))
        inside = getattr(inner, "model_fields", None)
        names |= {name} if inside is None else {f"{name}.{one}" for one in inside}
    assert names - OTHERWISE == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_the_default_that_a_help_names_is_that_of_the_field(name: str) -> None:
    """Typed as the value of the option it makes the Spec that leaving the option out makes."""
    one = FieldOption.of(name)
    words = re.findall(r" Default: (.*)\.$", str(one.option().help))
    values = re.split(", | and ", words[0]) if words else []
    if not words or any(" " in value or value in ("all", "both", "yes") for value in values):
        listed = ("audit.models", "audit.views", "audit.estimator")
        assert one.field.default in (None, (), False) or name in listed
        return
    given = values if one.form == "list" else words[0]
    table = name.partition(".")[0]
    left_out: dict[str, object] = {table: {}} if table in PROTOCOLS else {}
    typed = apply_changes(left_out, {name: one.read(given)})
    if one.kind in (int, float) and one.form == "one":
        typed = apply_changes(left_out, {name: one.kind(words[0])})
    assert Spec.parse(typed).table() == Spec.parse(left_out).table()


def test_a_study_has_options_of_its_fields_too() -> None:
    trees = FieldOption.of("merge.trees")
    assert (trees.flag, trees.kind, trees.form) == ("--trees", int, "one")
    assert str(MergeSpec().trees) in str(trees.option().help)
    split = FieldOption.of("merge.splits")
    assert (split.flag, split.kind, split.form) == ("--split", int, "list")
