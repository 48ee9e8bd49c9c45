"""Idioms of waiting for the device: reads, truth tests, indices, sizes, norms, texts."""
