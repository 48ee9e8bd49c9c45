"""Fixes that stay only as far as a command of the user passes with them, such as the tests of the project."""
