"""The short answer of a command, about ten lines: a conclusion, one table, and where to find the rest.

`short_answer.py` says what an answer consists of and prints it. `attack.py`, `audit.py`, `compare.py` and
`train.py` make the answers of these commands from their reports. With `--full` a command prints its whole
report.
"""
