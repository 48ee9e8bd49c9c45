"""Idioms: the code patterns that rules judge, recognized at sites with queries to the model."""
