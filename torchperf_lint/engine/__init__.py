"""The machinery between source bytes and findings: it knows rules only by their declarations."""
