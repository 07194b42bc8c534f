"""Annotations and SARIF of a check: what GitHub and the standard ask for, whatever names are in it."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.evidence.check.github import annotation_lines
from foltr_audit.evidence.check.limits import NAMES
from foltr_audit.evidence.check.limits_place import LimitsPlace
from foltr_audit.evidence.check.sarif import sarif_log
from tests.evidence.test_check_files import report

TEXT = "# limits\nmax_attack_auc = 0.9\n\nmax_proven_eps=0.9\nmin_ndcg = 0.1\n  max_ndcg_loss = 0.2\n"
PLACE = LimitsPlace("ci/our limits.toml", {"max_proven_eps": 4, "max_ndcg_loss": 6})

# The part of the standard that is used here, by its section; nothing else may stand in an object.
MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
CLOSED = {"type": "object", "additionalProperties": False}
LOCATION = CLOSED | {  # 3.28, 3.29, 3.4, 3.30
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": CLOSED
        | {
            "required": ["artifactLocation"],
            "properties": {
                "artifactLocation": CLOSED
                | {"properties": {"uri": {"type": "string", "pattern": r"^[\w./%~-]+$"}, "uriBaseId": {}}},
                "region": CLOSED | {"properties": {"startLine": {"type": "integer", "minimum": 1}}},
            },
        }
    },
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RULE = CLOSED | {  # 3.49
    "required": ["id"],
    "properties": {"id": {"type": "string"}, "shortDescription": MESSAGE},
}
DRIVER = CLOSED | {  # 3.19
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "version": {"type": "string"},
        "rules": {"type": "array", "uniqueItems": True, "items": RULE},
    },
}
RESULT = CLOSED | {  # 3.27
    "required": ["message"],
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": MESSAGE,
        "locations": {"type": "array", "items": LOCATION},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
INVOCATION = CLOSED | {  # 3.20
    "required": ["executionSuccessful"],
    "properties": {
        "executionSuccessful": {"type": "boolean"},
        "toolExecutionNotifications": {
            "type": "array",
            "items": CLOSED | {"required": ["message"], "properties": {"level": LEVEL, "message": MESSAGE}},
        },
    },
}
RUN = CLOSED | {  # 3.14
    "required": ["tool", "results"],
    "properties": {
        "tool": CLOSED | {"required": ["driver"], "properties": {"driver": DRIVER}},
        "invocations": {"type": "array", "items": INVOCATION},
        "results": {"type": "array", "items": RESULT},
    },
}
LOG = CLOSED | {  # 3.13
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": RUN},
    },
}


@cache
def standard() -> Any:
    """Validates documents against the form of the standard, which is itself checked once."""
    jsonschema = pytest.importorskip("jsonschema")
    kind = jsonschema.validators.validator_for(LOG)
    kind.check_schema(LOG)
    return kind(LOG)


@given(name=st.text(min_size=1, max_size=20))
def test_sarif_has_the_form_of_the_standard(name: str) -> None:
    log: Any = json.loads(sarif_log(report(name, ("careful",)), PLACE))
    standard().validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert {rule["id"] for rule in rules} == {"max_attack_auc", "max_proven_eps", "min_ndcg", "max_ndcg_loss"}
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        location = result["locations"][0]["physicalLocation"]
        assert unquote(location["artifactLocation"]["uri"]) == PLACE.name
    assert [(one["ruleId"], one["locations"][0]["physicalLocation"]["region"]) for one in run["results"]] == [
        ("max_proven_eps", {"startLine": 4}),
        ("max_ndcg_loss", {"startLine": 6}),
    ]
    marks = [result["partialFingerprints"]["limitAndRow/v1"] for result in run["results"]]
    assert len(set(marks)) == 2
    assert run["invocations"][0]["executionSuccessful"] is False  # a limit could not be judged


def test_the_form_can_be_missed() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    log = json.loads(sarif_log(report(), PLACE))
    log["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError, match="fatal"):
        standard().validate(log)


@given(name=st.text(max_size=20))
def test_every_annotation_is_one_command_of_one_line(name: str) -> None:
    lines = annotation_lines(report(name, (f"first\r\nsecond {name}",)), PLACE).split("\n")
    assert len(lines) == 4
    pattern = r"::error file=([^,:]+),line=(\d+),title=([^,:]+)::(.+)"
    broken, unjudged = (re.fullmatch(pattern, line) for line in lines[:2])
    assert broken is not None
    assert unjudged is not None
    assert broken.group(1, 2, 3) == ("ci/our limits.toml", "4", "max_proven_eps%3A broken")
    assert unjudged.group(2, 3) == ("6", "max_ndcg_loss%3A not judged")
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
    assert {name: place.line(name) for name in NAMES if name in place.lines} == {
        "max_attack_auc": 2,
        "max_proven_eps": 4,
        "min_ndcg": 5,
        "max_ndcg_loss": 6,
    }
    assert place.line("max_exact_eps") == 1
