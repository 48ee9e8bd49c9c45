"""Idioms of loading data: workers, passes over a loader, code that makes samples."""
