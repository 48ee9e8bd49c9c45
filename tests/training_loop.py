"""A training loop with one finding, TPL102 with a safe fix, for the tests that run the tool as a whole."""

from __future__ import annotations

LOOP = """\
import torch


def train(model, loader, optimizer):
    model.cuda()
    correct = 0
    for inputs, targets in loader:
        inputs = inputs.cuda(non_blocking=True)
        targets = targets.cuda(non_blocking=True)
        outputs = model(inputs)
        torch.nn.functional.cross_entropy(outputs, targets).backward()
        optimizer.step()
        correct += (outputs.argmax(1) == targets).sum().item()
    return correct
"""

FOUND_AT = "13:20"
"""Row and column of the finding."""

SLOW_LINE = "correct += (outputs.argmax(1) == targets).sum().item()"
"""What the fix rewrites."""
