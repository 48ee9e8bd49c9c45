"""One module per rule, in one package per category; the registry finds them by walking this package."""
