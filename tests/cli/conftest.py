"""What several commands are tested with."""

from __future__ import annotations

import pytest

from tests.fixtures.audits import leave_out_law_tests


@pytest.fixture
def laws_as_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """See `leave_out_law_tests`."""
    leave_out_law_tests(monkeypatch)
