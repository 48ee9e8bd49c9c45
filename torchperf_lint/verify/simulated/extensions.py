"""Support for packages whose compiled operators do not load: CUDA wheels beside a build of torch without CUDA.

Much of such a package works without the operators. Its import is patched to succeed, and calls that need a missing
operator raise.
"""

from __future__ import annotations

import functools
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from torchperf_lint.verify.simulated.internals import Library
from torchperf_lint.verify.simulated.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_kept: list[Any] = []  # declarations live as long as the library that declares them


def watch() -> None:
    """Patch future imports."""
    sys.meta_path.insert(0, _Mending())


class _Mending(MetaPathFinder):
    """Finds the modules that load compiled operators, and patches each after it has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Python's module spec with a patched loader; None for all other modules."""
        mend = _MENDS.get(fullname)
        spec = PathFinder.find_spec(fullname, path, target) if mend else None
        if spec is None or spec.loader is None or mend is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_mend(module: ModuleType) -> None:
            execute(module)
            mend(module)

        spec.loader.exec_module = execute_and_mend  # type: ignore[method-assign]
        return spec


def _declare_nms(module: Any) -> None:
    """Declare the operators that torchvision describes even if they are not loaded."""
    if module._has_ops():
        return
    module._assert_has_ops = functools.partial(refuse, "the compiled operators of this torchvision, which do not load")
    declared = Library("torchvision", "FRAGMENT")
    _kept.append(declared)
    for name in ("nms", "qnms"):
        declared.define(f"{name}(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")


def _go_without(module: Any) -> None:
    """Make torchaudio treat a library that does not load as a missing one."""
    load = module._load_lib

    @functools.wraps(load)
    def load_or_go_without(name: str) -> bool:
        try:
            return bool(load(name))
        except OSError:
            return False

    module._load_lib = load_or_go_without


_MENDS: dict[str, Callable[[Any], None]] = {
    "torchvision.extension": _declare_nms,
    "torchaudio._extension.utils": _go_without,
}
