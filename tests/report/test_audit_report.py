"""Whether the claims of an audit hold; what it says of them is in `tests/golden/audit.txt`."""

from __future__ import annotations

import pytest

from foltr_audit.errors import ContradictionError
from tests.fixtures.made_reports import audit_report as report
from tests.fixtures.made_reports import finding


def test_whether_claims_hold() -> None:
    assert report(finding("not refuted")).holds()
    assert not report(finding("not refuted")).holds(require_proof=True)
    assert not report(finding("refuted")).holds()
    with pytest.raises(ContradictionError, match="published, message, one interaction: contradiction"):
        report(finding("contradiction")).holds()
