"""NumPy: functions and methods with a counterpart in torch that does the same to a tensor on the device."""

from __future__ import annotations

_SAME_NAME = (
    "abs argmax argmin argsort ceil cos cumprod cumsum dot einsum exp exp2 expm1 floor hypot isfinite isinf isnan log "
    "log10 log1p log2 logical_and logical_not logical_or logical_xor matmul maximum mean minimum nan_to_num ones_like "
    "outer prod reciprocal round sigmoid sign sin sinh softmax sort sqrt square squeeze stack sum tan tanh tile trace "
    "tril triu unique where zeros_like"
)

TWINS: dict[str, str] = {
    **{f"numpy.{name}": f"torch.{name}" for name in _SAME_NAME.split()},
    "numpy.absolute": "torch.abs",
    "numpy.amax": "torch.amax",
    "numpy.amin": "torch.amin",
    "numpy.clip": "torch.clamp",
    "numpy.concatenate": "torch.cat",
    "numpy.expand_dims": "torch.unsqueeze",
    "numpy.flip": "torch.flip",
    "numpy.full_like": "torch.full_like",
    "numpy.linalg.norm": "torch.linalg.norm",
    "numpy.max": "torch.amax",
    "numpy.min": "torch.amin",
    "numpy.power": "torch.pow",
    "numpy.reshape": "torch.reshape",
    "numpy.roll": "torch.roll",
    "numpy.std": "torch.std",
    "numpy.transpose": "torch.permute",
    "numpy.var": "torch.var",
}

TWIN_METHODS = frozenset(
    "argmax argmin argsort astype clip copy cumsum dot flatten max mean min prod ravel repeat reshape round squeeze "
    "std sum swapaxes transpose var".split()
)
"""Methods of arrays that tensors have as well, possibly under another name."""

GIVE_ARRAYS = frozenset(
    "numpy." + name
    for name in (
        "array asarray ascontiguousarray zeros ones full empty zeros_like ones_like full_like empty_like arange "
        "linspace stack concatenate vstack hstack eye pad flip flipud fliplr rot90 transpose expand_dims reshape tile "
        "repeat broadcast_to fromiter frombuffer loadtxt atleast_1d atleast_2d random.rand random.randn"
    ).split()
)
"""Functions whose result is an array, never a scalar."""

GIVE_DOUBLES = frozenset({"numpy.zeros", "numpy.ones", "numpy.empty", "numpy.eye", "numpy.linspace"})
"""Functions whose arrays are float64 unless a dtype is given."""

KEEP_ARRAYS = frozenset("astype copy flatten ravel repeat reshape squeeze swapaxes transpose".split())
"""Methods of arrays that return an array."""

GIVE_DIMENSIONS = frozenset(
    "numpy." + name
    for name in (
        "append arange argpartition argsort atleast_1d bincount concatenate eye flatnonzero hstack "
        "intersect1d lexsort linspace random.permutation ravel repeat setdiff1d setxor1d stack tile union1d vstack"
    ).split()
)
"""Functions whose result is an array of at least one dimension, whatever they are given."""

OF_LISTS = frozenset("numpy." + name for name in "array asarray asanyarray ascontiguousarray sort flip roll".split())
"""Functions that give a list or an array the dimensions that it has."""

ELEMENTWISE = frozenset(
    "numpy." + name
    for name in (
        "abs absolute add subtract multiply divide floor_divide mod remainder minimum maximum clip floor ceil rint "
        "round logical_and logical_or logical_not logical_xor"
    ).split()
)
"""Functions whose result has the dimensions of all that they are given."""

POSITION_OF_SIZE = {
    "numpy.random.choice": 1,
    "numpy.random.randint": 2,
    "numpy.random.integers": 2,
    "numpy.random.uniform": 2,
    "numpy.random.normal": 2,
}
"""Functions that draw one number, or an array of the given size, and where it stands among their arguments."""

FLATTEN = frozenset({"ravel", "flatten", "repeat", "argsort"})
"""Methods that return an array of at least one dimension, whatever the array has."""

KEEP_DIMENSIONS = frozenset("astype copy clip round view byteswap conj cumsum cumprod".split())
"""Methods whose result has the dimensions of the array."""

GIVE_PLACES = frozenset(
    "numpy." + name
    for name in (
        "nonzero triu_indices tril_indices diag_indices triu_indices_from tril_indices_from diag_indices_from "
        "mask_indices"
    ).split()
)
"""Functions that return a tuple of index arrays, one for each dimension."""

PLACES_AS_GIVEN = "numpy.unravel_index"
"""A function whose result is a tuple of such arrays for an array, and of integers for an integer."""

FLOATS = frozenset(
    ref
    for module, names in (("math", "inf nan pi e tau"), ("numpy", "inf nan pi e"), ("torch", "inf nan pi e"))
    for ref in (f"{module}.{name}" for name in names.split())
)
"""Constants that are plain floats of Python, by their qualified names."""
