"""Checks of the simulated device, each module run in a process of its own."""
