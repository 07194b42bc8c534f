"""Runs a command and prints what it took, as JSON: `python -I -S launcher.py COMMAND ...`.

A process of its own, and small: the peak memory that the system reports of a child is never below
that of the process it was started from.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time


def main() -> None:
    """Run the command of the arguments."""
    start = time.perf_counter()
    done = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=False)
    taken = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    row = {
        "seconds": taken,
        "processor": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss * unit,
        "code": done.returncode,
        "out": done.stdout,
        "err": done.stderr,
    }
    sys.stdout.write(json.dumps(row))


if __name__ == "__main__":
    main()
