"""Idioms: what the patterns that rules judge look like in a program, as questions about sites to the model."""
