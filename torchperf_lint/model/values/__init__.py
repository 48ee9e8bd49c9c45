"""What values the expressions of a program have, and on which device they live."""
