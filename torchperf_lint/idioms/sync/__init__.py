"""Synchronization idioms: reads, truth tests, indices, sizes, norms, strings."""
