"""Metric idioms: torchmetrics updates and states, scores computed on the host, average meters."""
