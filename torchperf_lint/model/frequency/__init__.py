"""How often statements run: in every step, by which loop, hook or call path, or only sometimes."""
