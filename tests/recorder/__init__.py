"""Tests of the recorder, which is a distribution of its own."""
