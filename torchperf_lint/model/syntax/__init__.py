"""What one file's syntax tells by itself: definitions, calls, scopes, slices."""
