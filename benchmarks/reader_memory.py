"""Reads a LETOR file and prints what memory that took: `python -P reader_memory.py SMALL FILE`.

Prints the growth of resident memory at its peak and the size of the parsed features, in bytes. The
small file is read before, so that imports and kernels do not count.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from foltr_audit.data.letor import read_letor


def peak() -> int:
    """Highest resident memory so far, bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident() -> int:
    """Resident memory now, bytes; the peak if the system does not report it."""
    table = Path("/proc/self/statm")
    return int(table.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if table.is_file() else peak()


def main() -> None:
    """Read both files."""
    read_letor(Path(sys.argv[1]))
    before = resident()
    part = read_letor(Path(sys.argv[2]))
    sys.stdout.write(f"{peak() - before} {part.dataset.features.nbytes}\n")


if __name__ == "__main__":
    main()
