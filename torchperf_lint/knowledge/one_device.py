"""What torch computes of tensors on one device alone."""

from __future__ import annotations

JOINING = frozenset(
    "add addmm atan2 baddbmm bmm cat cdist concat concatenate cross div dot einsum eq fmod gather ge gt hstack "
    "index_add index_add_ index_copy index_copy_ index_select le lerp logical_and logical_or lt masked_fill "
    "masked_fill_ masked_scatter matmul maximum minimum mm mul mv ne outer pow scatter scatter_ scatter_add "
    "scatter_add_ stack sub take take_along_dim vstack where".split()
)
"""Functions and methods of torch that raise where they get a host tensor with dimensions and a tensor on the device."""
