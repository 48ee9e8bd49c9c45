"""Operations that raise for a tensor on the accelerator, so their argument is host data."""

from __future__ import annotations

NUMPY_ROOTS = ("np", "numpy")
TAKES_HOST_DATA = frozenset(
    "array asarray ascontiguousarray asanyarray concatenate vstack hstack stack clip exp log log1p expm1 sqrt isnan "
    "isinf isfinite where unique histogram percentile quantile median float32 float64 int32 int64 uint8 save "
    "absolute sign floor ceil rint power maximum minimum hypot arctan2 logical_and logical_or logical_not hstack "
    "column_stack array_equal digitize interp bincount pad isclose nan_to_num savez".split()
)
"""Functions of NumPy that convert their argument to an array, and do not call its method of the same name."""

WRITES_ARRAYS = frozenset({"copyto", "put", "putmask", "place", "fill_diagonal"})
"""Functions of NumPy that write to their first argument, which has to be an array."""

WRITTEN = "out"
"""The keyword of NumPy's functions for the array that they write to."""

OPENCV = "cv2"
GIVEN_ARRAYS = frozenset({"torch.from_numpy"})
GIVEN_HOST_DATA = frozenset({"Image.fromarray", "PIL.Image.fromarray", "plt.imshow"})

ARRAY_METHODS = frozenset({"astype", "tobytes", "itemset", "argpartition"})
"""Methods that arrays have and tensors do not."""

OTHER_ARRAYS = frozenset("cupy jax cudf dask tensorflow mindspore mxnet".split())
"""Libraries whose arrays have methods of NumPy's, and may be on a device."""

LENGTHS_ON_HOST = ("pack_padded_sequence", 1, "lengths")
"""A function whose argument, by position or keyword, has to be on the host."""

STAYS_THERE = frozenset(
    "detach clone contiguous data squeeze unsqueeze view reshape flatten permute transpose t float double half long "
    "int bool byte sum mean max min argmax softmax sigmoid round abs".split()
)
"""Methods and attributes of a tensor whose result lives where the tensor does."""

RETURN_TENSORS = "return_tensors"
"""The keyword of tokenizers and processors of text, images and sound, which work on the host."""

CATCHERS = frozenset({"suppress", "raises", "assertRaises"})
"""Contexts that continue after an error in their block."""
