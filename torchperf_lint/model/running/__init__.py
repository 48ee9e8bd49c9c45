"""Running: which statements every step of training runs, by loops, hooks, callers and frameworks."""
