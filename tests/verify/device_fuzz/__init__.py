"""Short random programs, run on the simulated device and on the host."""
