"""Adoption on old code: what a run leaves out because it was there before, and comments that silence it for good."""
