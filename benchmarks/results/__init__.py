"""What declared commands find: `python -m benchmarks.results`.

`tables/*.toml` declare runs (a command and its data), the tables of `results/` that they fill (rows of the
JSON that commands print), excerpts of tables, and published claims with the rule that judges them.
`pages/results.md` is the prose of docs/results.md, with the places of excerpts and claims.
"""
