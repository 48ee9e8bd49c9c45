"""The operators that are known to differ on the simulated device, and why."""

from __future__ import annotations

from typing import NamedTuple


class Exemption(NamedTuple):
    """Some operators, the parts of the sweep in which they differ, how, and why."""

    operators: str
    parts: tuple[str, ...]
    kind: str
    text: str  # in what the difference says
    reason: str
    within: float = 0.0  # for values: no farther apart than this, relative to the largest
    everywhere: bool = True  # False: the instructions of the CPU decide whether it shows


ALL_DTYPES = tuple(f"forward{dtype}" for dtype in ("", " complex64", " int64", " bool", " bfloat16"))

EXEMPTIONS = (
    Exemption(
        "sparse.sampled_addmm",
        ("forward", "forward complex64", "backward", "backward complex64"),
        "not simulated",
        "SparseCsr tensors on the device",
        "sparse tensors are not modelled",
    ),
    Exemption(
        "sparse.mm.reduce",
        ("forward", "forward bfloat16", "backward"),
        "not simulated",
        "SparseCsr tensors on the device",
        "sparse tensors are not modelled",
    ),
    Exemption(
        "to_sparse",
        (*ALL_DTYPES, "backward"),
        "not simulated",
        "tensors of torch.sparse_coo on the device",
        "sparse tensors are not modelled",
    ),
    Exemption(
        "tensor_split",
        (*ALL_DTYPES, "backward", "backward complex64"),
        "raises",
        "tensor_split expected tensor_indices_or_sections to be on cpu",
        "CUDA refuses indices on the device, too",
    ),
    Exemption(
        "histogram",
        ("forward", "out="),
        "raises",
        "NotImplementedError: Could not run 'aten::histogram.",
        "CUDA has no kernel for it either",
    ),
    Exemption(
        "histogramdd",
        ("forward", "out="),
        "raises",
        "NotImplementedError: Could not run 'aten::_histogramdd_",
        "CUDA has no kernel for it either",
    ),
    Exemption(
        "narrow_copy",
        ("out=",),
        "raises",
        "NotImplementedError: Could not run 'aten::narrow_copy.out'",
        "CUDA has no kernel for this overload either",
    ),
    Exemption(
        "nn.functional.max_pool1d",
        ("forward", "forward bfloat16"),
        "_is_view",
        "True, not False",
        "without gradients the host has a kernel of its own; elsewhere the result is a view of max_pool2d's",
    ),
    Exemption(
        "nn.functional.linear_cross_entropy.chunked nn.functional.linear_cross_entropy.chunked_none",
        ("forward bfloat16",),
        "not simulated",
        "aten::mm has no kernel on the host",
        "only CUDA multiplies matrices of bfloat16 into one of float32",
    ),
    Exemption(
        "addbmm",
        ("in place",),
        "not simulated",
        "aten::addbmm_ gives an argument another shape",
        "torch broadcasts the tensor itself, in place; memory of the device does not grow inside a kernel",
    ),
    Exemption(
        "gradient nn.functional.multilabel_soft_margin_loss",
        ("forward",),
        "values",
        "",
        "CUDA divides by a number of the host by multiplying with its reciprocal",
        within=1e-6,
    ),
    Exemption(
        "nn.functional.linear_cross_entropy nn.functional.linear_cross_entropy.chunked",
        ("forward",),
        "values",
        "",
        "CUDA divides by a number of the host by multiplying with its reciprocal",
        within=1e-6,
        everywhere=False,
    ),
    Exemption(
        "pca_lowrank",
        ("backward",),
        "values",
        "",
        "the last digits differ on some CPUs; the cause is not known",
        within=1e-7,
        everywhere=False,
    ),
    Exemption(
        "gradient var_mean std_mean native_group_norm mean special.log_ndtr nn.functional.adaptive_avg_pool3d"
        " nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.l1_loss"
        " nn.functional.hinge_embedding_loss",
        ("backward",),
        "values",
        "",
        "CUDA divides by a number of the host by multiplying with its reciprocal",
        within=1e-6,
    ),
    Exemption(
        "nn.functional.scaled_dot_product_attention",
        ("forward",),
        "values",
        "",
        "the host takes its fused kernel, the device the composition of smaller operators",
        within=5e-6,
    ),
    Exemption(
        "nn.functional.scaled_dot_product_attention",
        ("backward",),
        "stride",
        "(96, 24, 8, 1), not (96, 8, 32, 1)",
        "the host takes its fused kernel, the device the composition of smaller operators",
    ),
    Exemption(
        "linalg.lstsq",
        ("forward", "out=", "backward"),
        "raises",
        "`driver` other than `gels` is not supported on CUDA",
        "CUDA has one driver",
    ),
    Exemption(
        "linalg.lstsq.grad_oriented",
        ("forward", "backward"),
        "raises",
        "`driver` other than `gels` is not supported on CUDA",
        "CUDA has one driver",
    ),
)
