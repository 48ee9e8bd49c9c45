"""Idioms of copies between host and device, and of tensors that are built on the wrong side."""
