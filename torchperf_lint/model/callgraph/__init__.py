"""Who calls what: by names, by class hierarchy, by values."""
