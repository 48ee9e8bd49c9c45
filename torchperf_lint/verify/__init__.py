"""The verification suite: runs unfixed and fixed programs on a simulated or real device, and counts waits and copies.

Running a program needs the extra `verify` (torch, torchmetrics). The linter itself never imports this
package; `profile` uses its modules for joining lines with findings and for pages, and needs no extra.
"""
