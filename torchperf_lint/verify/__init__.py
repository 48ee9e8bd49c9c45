"""The verification suite: programs run unfixed against fixed, on a simulated device or a real one, and what is counted.

Everything that runs a program needs the extra `verify` (torch, torchmetrics). The linter itself never imports this
package; `profile` shares of it what joins lines with findings and what makes pages, and needs no extra.
"""
