"""TPL8xx: tensor operations: many small ones where a few large ones suffice."""
