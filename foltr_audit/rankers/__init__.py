"""Rankers: parameters in, scores and Jacobians out."""
