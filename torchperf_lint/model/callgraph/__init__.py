"""The call graph: who calls what, by names, by class hierarchy, by values."""
