"""The pipeline from source bytes to findings; it knows rules only by their declarations."""
