"""Distributed idioms: collectives, reductions, and the script that each process runs."""
