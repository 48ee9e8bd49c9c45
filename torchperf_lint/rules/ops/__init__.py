"""TPL8xx: operations on tensors: many small ones where a few large ones do."""
