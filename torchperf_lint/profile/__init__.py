"""Waits on a user's own GPU: traces of `torch.profiler`, read without torch, beside what the linter finds."""
