"""Compute idioms: gradient modes, precision, process-wide settings, layers, loops that one call replaces."""
