"""Limits of what a system leaks and costs, checked on a run, a trace or a comparison."""
