"""torchmetrics objects whose updates wait for the device or copy to it."""
