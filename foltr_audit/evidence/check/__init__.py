"""Limits for what a system may give away and cost, held against a run, a trace or a comparison."""
