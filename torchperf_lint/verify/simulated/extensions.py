"""Packages whose compiled operators do not load: wheels for CUDA beside a build of torch without it.

They can do much without any of these operators; what refuses to be imported is led past them, and what needs one of
them says so when it is called.
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

_kept: list[Any] = []  # what is declared lives as long as the library that declares it


def watch() -> None:
    """Mend what is imported from now on."""
    sys.meta_path.insert(0, _Mending())


class _Mending(MetaPathFinder):
    """Finds the modules that load compiled operators, and mends each when it has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification as Python finds it, whose module is mended; None for all other modules."""
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
    """Let torchvision find the operators that it describes whether or not they were loaded."""
    if module._has_ops():
        return
    module._assert_has_ops = functools.partial(refuse, "the compiled operators of this torchvision, which do not load")
    declared = Library("torchvision", "FRAGMENT")
    _kept.append(declared)
    for name in ("nms", "qnms"):
        declared.define(f"{name}(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")


def _go_without(module: Any) -> None:
    """Let torchaudio take a library that does not load for one that is not there."""
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
