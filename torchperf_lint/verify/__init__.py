"""The verification suite: programs run unfixed against fixed, on a simulated device or a real one, and what is counted.

Everything here needs the extra `verify` (torch, torchmetrics); the linter itself never imports this package.
"""
