"""Host reads of device values: each read waits until the device has caught up."""
