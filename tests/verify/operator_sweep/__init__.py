"""Every operator of torch's own operator database, on the simulated device and on the host, forward and backward."""
