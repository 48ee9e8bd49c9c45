"""Idioms of memory: autograd graphs that outlive their use."""
