"""Idioms of computing: gradient modes, precision, settings of the process, layers, loops that one call replaces."""
