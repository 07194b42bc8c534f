"""Pages of docs/ from declared commands: `python -m benchmarks.results`.

`tables/*.toml` declare runs (a command and its data), tables (rows and columns of the JSON that commands
print) and published claims with the rule that judges them. Results are stored in `build/results`. Each file
of `pages` holds the prose of the page with its name, and the places of its tables.
"""
