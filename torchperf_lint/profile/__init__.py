"""Waits on a user's own GPU: traces of `torch.profiler`, read without torch and compared with the linter's findings."""
