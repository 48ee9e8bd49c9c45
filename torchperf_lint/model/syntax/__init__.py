"""Facts from one file's syntax alone: definitions, calls, scopes, slices."""
