"""The project: what its files bind, import, call and pass on, and how a name in one file resolves to another."""
