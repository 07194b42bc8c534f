"""Recipes that record programs of others. Each runs where an environment variable names a checkout."""
