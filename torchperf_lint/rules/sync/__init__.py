"""Reading device values on the host: every read waits until the device has caught up."""
