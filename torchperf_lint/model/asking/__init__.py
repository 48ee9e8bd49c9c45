"""The questions that `Model` answers by Python's own tree, which idioms ask: code, values, frequency."""
