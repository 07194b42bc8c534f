"""What a check writes: JUnit XML, Markdown, JSON and annotations, whatever names are in it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.core.warning_kinds import coded
from foltr_audit.evidence.check.limits import NAMES, SystemLimits
from foltr_audit.evidence.check.outcomes import printable
from foltr_audit.experiments.table import NOT_TESTED
from foltr_audit.report.check import (
    CheckReport,
    LimitsPlace,
    annotation_lines,
    escape_markdown,
    junit_xml,
    markdown,
    write,
)
from tests.fixtures.check_subjects import report as made
from tests.fixtures.check_subjects import subject
from tests.fixtures.there import there

NUMBERS = {"max_attack_auc": 0.9, "max_proven_eps": 0.9, "min_ndcg": 0.1, "max_ndcg_loss": 0.2}
LIMITS = SystemLimits.parse(NUMBERS, "")


def report(name: str = "toy", warnings: tuple[str, ...] = ()) -> CheckReport:
    """Two limits that hold, one that is broken (proven epsilon 1) and one that cannot be judged."""
    held = subject(name=name, difference=NOT_TESTED, missing={"loss": f"no twin of {name}"})
    return made(LIMITS, held, {"who": name}, [coded("left out", text) for text in warnings])


@given(name=st.text(max_size=30))
def test_junit_is_well_formed_and_counts_right(name: str) -> None:
    root = ElementTree.fromstring(junit_xml(report(name, (name,))))  # noqa: S314  our own text
    assert root.tag == "testsuites"
    suite = root[0]
    for element in (root, suite):
        counts = {key: element.get(key) for key in ("tests", "failures", "errors", "skipped", "time")}
        assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "0", "time": "0"}
    cases = suite.findall("testcase")
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == 4
    assert all(case.get("time") is not None for case in cases)
    kinds = {case.get("name", "").partition(":")[0]: [child.tag for child in case] for case in cases}
    assert kinds == dict(zip(NUMBERS, (["system-out"], ["failure"], ["system-out"], ["error"]), strict=True))
    failure = there(suite.find("testcase/failure"))
    assert failure.get("message") == failure.text
    assert printable(name) in str(failure.text)


@given(name=st.text(max_size=30))
def test_a_name_cannot_leave_its_cell_or_become_a_tag(name: str) -> None:
    lines = markdown(report(name, (name,))).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 4
    for line in table:
        bare = re.sub(r"\\.|&(?:amp|lt|gt);", "", line)
        assert bare.count("|") == 9
        assert not set("<>`[]&$") & set(bare)
    assert len(lines) == 9 + 1


def test_markdown_says_what_is_broken() -> None:
    text = markdown(report())
    assert "4 limits checked on 1 row: 1 broken, 1 not judged" in text
    assert "| max\\_proven\\_eps | toy | **broken** | 1 |" in text
    assert "no twin of toy" in text
    assert escape_markdown("a\nb $x$") == "a b \\$x\\$"


def test_a_summary_is_added_to_what_is_there(tmp_path: Path) -> None:
    file, one, two = tmp_path / "summary.md", report("one"), report("two")
    write("markdown", one, PLACE, file)
    assert file.read_text() == markdown(one)
    write("markdown", two, PLACE, file)
    assert file.read_text() == f"{markdown(one)}\n{markdown(two)}"
    file.write_bytes(b"\xff no UTF-8")
    write("markdown", one, PLACE, file)
    assert file.read_bytes() == b"\xff no UTF-8\n\n" + markdown(one).encode()
    file.write_text("")
    write("markdown", one, PLACE, file)
    assert file.read_text() == markdown(one)


def test_a_report_holds_only_if_everything_does() -> None:
    assert not report().holds
    easy = made(SystemLimits.parse({"max_attack_auc": 0.9}, ""), subject())
    assert (easy.holds, easy.passes) == (True, True)
    assert easy.counts == "1 limit checked on 1 row: all hold"


@pytest.mark.parametrize("allowed", [False, True])
def test_what_cannot_be_judged_fails_unless_the_limits_allow_it(allowed: bool) -> None:
    open_ones = {"max_ndcg_loss": 0.2, "max_attack_auc": 0.9, "allow_not_judged": allowed}
    held = subject(difference=NOT_TESTED)
    found = made(SystemLimits.parse(open_ones, ""), held)
    assert (found.holds, found.passes) == (False, allowed)
    assert not made(SystemLimits.parse({**open_ones, "max_proven_eps": 0.9}, ""), held).passes
    suite = ElementTree.fromstring(junit_xml(found))[0]  # noqa: S314  our own text
    assert (suite.get("errors"), suite.get("skipped")) == (("0", "1") if allowed else ("1", "0"))
    assert len(suite.findall("testcase/skipped" if allowed else "testcase/error")) == 1
    assert annotation_lines(found, PLACE).startswith("::warning file=" if allowed else "::error file=")


@pytest.mark.parametrize("limit", NAMES)
def test_limits_of_quality_alone_say_so(limit: str) -> None:
    silent = limit in ("min_ndcg", "max_ndcg_loss")
    value = True if limit == "no_refuted_claims" else 0.9
    found = made(SystemLimits.parse({limit: value}, ""), subject())
    assert ("FA406" in {row["code"] for row in found.warnings}) is silent
    assert found.counts.endswith("; none is about privacy") is silent


def test_attacks_that_nobody_chose_are_warned_of() -> None:
    held = subject(refused={"map": "no law"}, all_attacks=False)
    found = made(LIMITS, held)
    assert [str(warning) for warning in found.coded_warnings] == [
        "FA403: toy, perfect clicks: map could not run and is not judged: no law"
    ]
    assert not made(SystemLimits.parse({"max_proven_eps": 1}, ""), held).warnings


# --- annotations ----------------------------------------------------------------------------------


TEXT = "# limits\nmax_attack_auc = 0.9\n\nmax_proven_eps=0.9\nmin_ndcg = 0.1\n  max_ndcg_loss = 0.2\n"
PLACE = LimitsPlace("ci/our limits.toml", {"max_proven_eps": 4})


@given(name=st.text(max_size=20))
def test_every_annotation_is_one_command_of_one_line(name: str) -> None:
    lines = annotation_lines(report(name, (f"first\r\nsecond {name}",)), PLACE).split("\n")
    assert len(lines) == 4
    pattern = r"::error file=([^,:]+),line=(\d+),title=([^,:]+)::(.+)"
    broken, unjudged = (there(re.fullmatch(pattern, line)) for line in lines[:2])
    assert broken.group(1, 2, 3) == ("ci/our limits.toml", "4", "max_proven_eps%3A broken")
    assert unjudged.group(2, 3) == ("1", "max_ndcg_loss%3A not judged")
    assert re.fullmatch(r"::warning title=foltr-audit check::(FA\d+: )?first.*", lines[2])
    assert lines[3] == "4 limits checked on 1 row: 1 broken, 1 not judged"


def test_the_place_of_a_limit_is_its_line_and_never_a_path_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "work" / "ci" / "limits.toml", tmp_path / "limits.toml"
    inside.parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    place = LimitsPlace.of(inside, TEXT)
    assert place.name == "ci/limits.toml"
    assert LimitsPlace.of(outside, TEXT).name == "limits.toml"
    assert place.lines == {"max_attack_auc": 2, "max_proven_eps": 4, "min_ndcg": 5, "max_ndcg_loss": 6}
