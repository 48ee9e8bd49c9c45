"""Moving data between host and device, and building it on the wrong side."""
