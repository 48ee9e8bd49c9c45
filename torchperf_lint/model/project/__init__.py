"""The project: what its files bind, import, call and hand on, and how a name in one means a thing in another."""
