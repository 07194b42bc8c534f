"""Learners: how clients turn interactions into updates."""
