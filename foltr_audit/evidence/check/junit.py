"""Writes the outcomes of a check as JUnit XML, which build servers show as tests.

Each limit and row is a test case. GitLab distinguishes cases by class and name and shows only the text of a
failure; other readers show its `message`, so both contain the same line. Some readers fail if `time` is
missing: it is 0.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from foltr_audit.evidence.check.limit_check import LimitOutcome
from foltr_audit.evidence.check.report import CheckReport

SUITE = "foltr-audit check"
CLASS = "foltr-audit.check"
_KINDS = {"broken": "failure", "not judged": "error"}


def junit_xml(report: CheckReport) -> bytes:
    """The XML document in UTF-8."""
    counts = {
        "tests": str(len(report.outcomes)),
        "failures": str(len(report.of_status("broken"))),
        "errors": str(len(report.of_status("not judged"))),
        "skipped": "0",
        "time": "0",
    }
    root = Element("testsuites", counts, name=SUITE)
    suite = SubElement(root, "testsuite", counts, name=SUITE)
    for one in report.outcomes:
        _add(suite, one)
    if report.warnings:
        SubElement(suite, "system-out").text = "\n".join(str(row.coded) for row in report.warnings)
    indent(root)
    return bytes(tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _add(suite: Element, one: LimitOutcome) -> None:
    case = SubElement(suite, "testcase", classname=CLASS, name=f"{one.limit}: {one.subject}", time="0")
    if one.status in _KINDS:
        SubElement(case, _KINDS[one.status], message=one.line, type=one.limit).text = one.line
    else:
        SubElement(case, "system-out").text = one.line
