"""Meaning: what expressions, statements and functions come to, as Values."""
