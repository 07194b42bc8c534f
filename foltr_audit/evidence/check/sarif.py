"""Writes the outcomes of a check as SARIF 2.1.0, which code scanning reads.

Each limit is a rule. A result is a limit that is broken or cannot be judged for a row; its place is the limit
in its file. An empty list of results says that the check ran and found nothing.

Source: OASIS 2020, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from urllib.parse import quote

from foltr_audit.evidence.check.limit_check import LimitOutcome
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.limits_place import LimitsPlace
from foltr_audit.evidence.check.report import CheckReport
from foltr_audit.utils.formatting import json_text

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"  # what the standard calls the top of a checkout


def sarif_log(report: CheckReport, place: LimitsPlace) -> str:
    """The log as a JSON text."""
    rules = list(dict.fromkeys(one.limit for one in report.outcomes))
    failed = [one for one in report.outcomes if one.status != "holds"]
    run = {
        "tool": {
            "driver": {
                "name": "foltr-audit",
                "version": version("foltr-audit"),
                "rules": [_rule(name) for name in rules],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not report.of_status("not judged"),
                "toolExecutionNotifications": [
                    {"level": "warning", "message": {"text": str(row.coded)}} for row in report.warnings
                ],
            }
        ],
        "results": [_result(one, rules.index(one.limit), place) for one in failed],
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(name: str) -> dict[str, object]:
    described = _meanings()[name]
    return {"id": name, "shortDescription": {"text": described[0].upper() + described[1:]}}


def _meanings() -> dict[str, str]:
    """What each limit is, in the words of the table of limits."""
    lines = (line.strip() for line in (SystemLimits.__doc__ or "").splitlines())
    named = (line.partition(": ") for line in lines if ": " in line)
    return {name: text for name, _, text in named}


def _result(one: LimitOutcome, rule: int, place: LimitsPlace) -> dict[str, object]:
    identity = f"{one.limit}\n{one.subject}"
    location = {
        "artifactLocation": {"uri": quote(place.name), "uriBaseId": _ROOT},
        "region": {"startLine": place.line(one.limit)},
    }
    return {
        "ruleId": one.limit,
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": one.line},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"limitAndRow/v1": hashlib.sha256(identity.encode()).hexdigest()},
    }
