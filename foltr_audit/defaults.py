"""What all commands take where nothing else is said, so that their answers can be set side by side."""

from __future__ import annotations

from typing import Final

UNIT: Final = "interaction"
"""What neighbouring inputs differ in."""

VIEW: Final = "individual"
"""Whose observations: a server that gets what each client sends."""

DELTA: Final = 1e-5
"""Delta of what has no pure bound, and of a chain that claims nothing."""

TRIALS: Final = 2000
"""Evaluated trials of an audit under each hypothesis."""
