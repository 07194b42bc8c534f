"""What all commands assume if nothing else is given, so that their answers can be compared.

A bound for another unit, view or delta is another statement: with a default of its own in each command, the
noise that `calibrate` prints would not be what `audit` checks. The help of commands shows these values, so
this module imports nothing: `foltr-audit --help` starts without pydantic and NumPy.
"""

from __future__ import annotations

from typing import Final

UNIT: Final = "interaction"
"""What neighbouring inputs differ in."""

VIEW: Final = "individual"
"""Whose observations: a server that receives what each client sends."""

DELTA: Final = 1e-5
"""Delta of what has no pure bound, and of a chain that makes no claim."""

TRIALS: Final = 2000
"""Evaluated trials of an audit under each hypothesis."""
