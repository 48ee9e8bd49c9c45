"""Idioms of metrics: torchmetrics updates and states, scores worked out on the host, average meters."""
