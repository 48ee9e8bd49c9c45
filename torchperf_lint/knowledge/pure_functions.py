"""Functions of torch and NumPy that only compute: they do not write to their arguments, and call no other code."""

from __future__ import annotations

_TENSORS = (
    "abs absolute acos acosh add addcdiv addcmul addmm all allclose amax amin aminmax angle any arange argmax "
    "argmin argsort argwhere as_tensor asarray asin asinh atan atan2 atanh baddbmm bincount bitwise_and "
    "bitwise_not bitwise_or bitwise_xor bmm broadcast_tensors broadcast_to bucketize cat cdist ceil chunk clamp "
    "clamp_max clamp_min clip clone column_stack complex concat concatenate conj copysign cos cosh count_nonzero "
    "cov cross cummax cummin cumprod cumsum deg2rad diag diag_embed diagonal diff dist div divide dot einsum empty "
    "empty_like eq equal erf erfc erfinv exp exp2 expm1 eye flatten flip fliplr flipud floor floor_divide fmod "
    "frac full full_like gather ge gt heaviside histc hstack hypot index_select inner inverse isclose isfinite "
    "isin isinf isnan kron kthvalue le lerp lgamma linspace log log10 log1p log2 log_softmax logaddexp "
    "logcumsumexp logical_and logical_not logical_or logical_xor logspace logsumexp lt masked_fill masked_select "
    "matmul max maximum mean median meshgrid min minimum mm movedim mul multinomial multiply mv nan_to_num nanmean "
    "nanmedian nansum narrow ne neg negative nonzero norm normal numel ones ones_like outer permute polar pow prod "
    "quantile rad2deg rand rand_like randint randint_like randn randn_like randperm range ravel reciprocal "
    "remainder repeat_interleave reshape roll rot90 round rsqrt scatter scatter_add searchsorted select sigmoid "
    "sign signbit sin sinc sinh softmax sort split sqrt square squeeze stack std std_mean sub subtract sum "
    "swapaxes t take take_along_dim tan tanh tensor tensor_split tensordot tile topk trace transpose trapezoid "
    "tril triu true_divide trunc unbind unflatten unique unsqueeze var var_mean vdot view_as_complex view_as_real "
    "vstack where zeros zeros_like"
)
_LAYERS = (
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
    "affine_grid avg_pool1d avg_pool2d avg_pool3d bilinear channel_shuffle conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d conv_transpose3d cosine_similarity fold gelu glu grid_sample group_norm gumbel_softmax "
    "hardshrink interpolate layer_norm linear local_response_norm log_softmax logsigmoid lp_pool1d lp_pool2d "
    "max_pool1d max_pool2d max_pool3d normalize one_hot pad pairwise_distance pdist pixel_shuffle pixel_unshuffle "
    "prelu rms_norm scaled_dot_product_attention sigmoid softmax softmin softplus softshrink softsign tanh "
    "tanhshrink unfold"
)
_LOSSES = (
    "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss "
    "gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss "
    "multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss poisson_nll_loss smooth_l1_loss "
    "soft_margin_loss triplet_margin_loss"
)
_SEQUENCES = "pack_padded_sequence pack_sequence pad_packed_sequence pad_sequence unpad_sequence"
_ALGEBRA = "cross det inv matrix_norm norm pinv slogdet solve svd svdvals vecdot vector_norm"

PURE = frozenset(
    {
        *("torch." + name for name in (*_TENSORS.split(), "finfo", "iinfo", "device", "Size")),
        *("torch." + name for name in ("is_tensor", "is_floating_point", "is_complex", "is_grad_enabled")),
        *("torch.nn.functional." + name for name in (*_LAYERS.split(), *_LOSSES.split())),
        *("torch.nn.utils.rnn." + name for name in _SEQUENCES.split()),
        *("torch.linalg." + name for name in _ALGEBRA.split()),
    }
)
"""They write only to an `out=` tensor."""

PURE_UNLESS_IN_PLACE = frozenset(
    "torch.nn.functional." + name
    for name in (
        "alpha_dropout celu dropout dropout1d dropout2d dropout3d elu feature_alpha_dropout hardsigmoid hardswish "
        "hardtanh leaky_relu mish relu relu6 rrelu selu silu threshold"
    ).split()
)
"""They write to their first argument if `inplace` is true, which may be positional."""

MAY_GIVE_ITS_ARGUMENT = frozenset(
    (
        "as_tensor asarray broadcast_tensors broadcast_to chunk conj diagonal einsum flatten meshgrid movedim narrow "
        "permute ravel reshape select split squeeze swapaxes t tensor_split transpose unbind unflatten unsqueeze "
        "view_as_complex view_as_real alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout "
        "pixel_shuffle pixel_unshuffle pack_padded_sequence pack_sequence pad_packed_sequence pad_sequence "
        "unpad_sequence"
    ).split()
)
"""Their result may be their argument, or a view of it."""

_NUMPY = {
    1: (
        "abs absolute arccos arcsin arctan ceil cos deg2rad degrees exp exp2 expm1 floor isfinite isinf isnan log "
        "log10 log1p log2 logical_not negative rad2deg radians reciprocal rint sign sin sqrt square tan tanh"
    ),
    2: (
        "add all allclose amax amin any append arctan2 argmax argmin argsort array_equal average bitwise_and "
        "bitwise_or concatenate convolve copysign correlate cross cumprod cumsum divide dot dstack equal "
        "floor_divide fmod greater greater_equal hstack hypot in1d inner isclose isin kron less less_equal "
        "logical_and logical_or logical_xor matmul max maximum mean median min minimum mod multiply not_equal "
        "outer percentile power prod quantile remainder repeat roll round searchsorted stack std subtract sum "
        "tensordot tile true_divide unique var vdot vstack"
    ),
    3: "clip digitize interp pad where",
}
_NUMPY_ALGEBRA = "det inv norm pinv solve"

PURE_NUMPY = {
    **{f"numpy.{name}": most for most, names in _NUMPY.items() for name in names.split()},
    **{f"numpy.linalg.{name}": 2 for name in _NUMPY_ALGEBRA.split()},
}
"""They return a new array or a number. Value: the number of positional arguments before a possible `out` array."""
