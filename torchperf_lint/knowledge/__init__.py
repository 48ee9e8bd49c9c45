"""Tables of what libraries do: no logic, so that adding an API is one row."""
