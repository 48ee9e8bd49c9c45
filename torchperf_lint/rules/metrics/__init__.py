"""torchmetrics objects whose updates wait or copy."""
