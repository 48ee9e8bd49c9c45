"""The shims of compilers: arguments of `torch.compile` or `torch.jit.script` run as plain Python.

A compiler changes fusion and the number of kernel launches. It cannot remove a wait that the program needs, and
eager execution shows each wait at its own line.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import jit
from torch.jit import _state as jit_state

from torchperf_lint.verify.simulated.names import HOST, on_device
from torchperf_lint.verify.simulated.refusals import refuse
from torchperf_lint.verify.simulated.torch_shims.patching import Faces

if TYPE_CHECKING:
    from collections.abc import Callable

faces = Faces()

SAID = (
    "the simulated device does not compile: what torch.compile is given runs eagerly, and the waits are those of the "
    "eager program"
)


# ---- torch.compile

_eager = False
_said = False


@faces.wrap(torch, "compile")
def _compile(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """The original wrapper, whose calls run eagerly."""
    _stay_eager()
    return original(*arguments, **keywords)


def _stay_eager() -> None:
    """Run all compiled code eagerly, whatever stance the program sets later."""
    global _eager
    if _eager:
        return
    _eager = True
    from torch._dynamo import eval_frame

    torch.compiler.set_stance("force_eager")
    eval_frame._callback_from_stance = _no_compiler


def _no_compiler(callback: Any) -> None:
    """Torch's callback for calls of compiled functions: warn once and compile nothing; None means no compilation."""
    global _said
    if callback not in (None, False) and not _said:
        _said = True
        warnings.warn(SAID, UserWarning, stacklevel=3)


# ---- TorchScript, whose interpreter would take "cuda" for a real device


_FRAMES_OF_A_FACE = 2


@faces.wrap(jit, "script", "trace", "trace_module")
def _script(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Return the function unchanged, as with PYTORCH_JIT=0; torch itself may still compile its own functions."""
    caller = sys._getframe(2).f_globals.get("__name__", "")
    if caller.partition(".")[0] == "torch":
        if original.__name__ == "script":  # it looks names up in its caller's frame
            keywords["_frames_up"] = keywords.get("_frames_up", 0) + _FRAMES_OF_A_FACE
        return original(*arguments, **keywords)
    was = jit_state._enabled.enabled
    jit_state.disable()
    try:
        given = original(*arguments, **keywords)
    finally:
        jit_state._enabled.enabled = was
    if isinstance(given, torch.nn.Module) and not hasattr(given, "save"):
        given.__dict__["save"] = _refuse_to_save
    return given


def _refuse_to_save(*arguments: Any, **keywords: Any) -> NoReturn:
    """Refuses to save; a module-level function, so that its holder can be pickled."""
    refuse("saving a module as TorchScript")


@faces.wrap(jit, "freeze", "optimize_for_inference")
def _freeze(original: Callable[..., Any], module: torch.nn.Module, *arguments: Any, **keywords: Any) -> Any:
    return original(module, *arguments, **keywords) if isinstance(module, jit.ScriptModule) else module


@faces.wrap(jit, "save")
def _save(original: Callable[..., None], module: Any, *arguments: Any, **keywords: Any) -> None:
    if not isinstance(module, (jit.ScriptModule, jit.ScriptFunction)):
        _refuse_to_save()
    original(module, *arguments, **keywords)


@faces.wrap(jit.ScriptModule, "_apply")
def _apply(original: Callable[..., Any], module: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    if on_device(function(torch.empty(0, device=HOST))):
        refuse("a TorchScript module on the device")
    return original(module, function, *arguments)
