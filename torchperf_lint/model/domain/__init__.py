"""What values are, and what the packages of the model may ask each other."""
