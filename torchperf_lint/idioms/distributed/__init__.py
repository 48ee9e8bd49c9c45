"""Idioms of several processes: collectives, reductions, and a script as what such a process runs."""
