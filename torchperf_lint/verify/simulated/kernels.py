"""Runs an operator on the device: on host aliases of its arguments, recording its waits and checking device rules."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from torchperf_lint.verify.simulated import processes
from torchperf_lint.verify.simulated.internals import core
from torchperf_lint.verify.simulated.journal import note_operator
from torchperf_lint.verify.simulated.memory import device_alias, host_alias, new_on_device
from torchperf_lint.verify.simulated.mixing import (
    HostOperands,
    check_assigned,
    check_indexed,
    host_operands,
    refuse_mixture,
)
from torchperf_lint.verify.simulated.names import HOST, is_device, on_device
from torchperf_lint.verify.simulated.randomness import device_generator, drawing_from_device
from torchperf_lint.verify.simulated.refusals import NotSimulated
from torchperf_lint.verify.simulated.waits import note_waits, waits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch._ops import OpOverload

    Operator = OpOverload[..., Any]

_NUMBERS = (int, float, bool, complex)
_NO_LAUNCH = frozenset({"empty", "empty_strided", "empty_like", "new_empty", "set_", "resize_", "detach"})
_CANNOT_RESIZE = "Trying to resize storage that is not resizable"
_HOST_KEYS = core.DispatchKeySet(core.DispatchKey.CPU)


class _Facts:
    """Properties of an operator, computed once."""

    __slots__ = (
        "generator",
        "host_operands",
        "launches",
        "name",
        "outputs",
        "parameters",
        "returns",
        "seeded",
        "short_name",
        "tensors",
        "waits",
        "writes",
        "written",
    )

    def __init__(self, operator: Operator) -> None:
        schema = operator._schema
        arguments = schema.arguments
        written = [each.alias_info is not None and each.alias_info.is_write for each in arguments]
        self.name = schema.name
        self.short_name = schema.name.partition("::")[2]
        self.host_operands = host_operands(operator)
        self.parameters = tuple(each.name for each in arguments)
        self.outputs = tuple(
            each.name for each, writes in zip(arguments, written, strict=True) if each.kwarg_only and writes
        )
        self.writes = any(written)
        self.returns = len(schema.returns)
        self.written = tuple(
            index
            for index, each in enumerate(arguments)
            if written[index] and not each.kwarg_only and self.host_operands is not HostOperands.ANY
        )
        self.tensors = tuple(
            index for index, each in enumerate(arguments) if not each.kwarg_only and str(each.type) == "Tensor"
        )
        self.generator = next((index for index, each in enumerate(arguments) if each.name == "generator"), None)
        self.seeded = torch.Tag.nondeterministic_seeded in operator.tags and self.generator is None
        self.waits = waits_of(self.short_name) if schema.name.startswith("aten::") else ()
        self.launches = self.short_name not in _NO_LAUNCH and not _is_view(operator)


def _is_view(operator: Operator) -> bool:
    """Whether every result is a view of an argument."""
    returns = operator._schema.returns
    return bool(returns) and all(each.alias_info is not None and not each.alias_info.is_write for each in returns)


_known: dict[Operator, _Facts] = {}


def _learn(operator: Operator) -> _Facts:
    facts = _known[operator] = _Facts(operator)
    return facts


class _Translation:
    """The arguments of one call as host tensors, and its results as device tensors."""

    __slots__ = ("memory", "originals", "stray", "whole_memory")

    def __init__(self, writes: bool) -> None:
        self.whole_memory: dict[int, torch.Tensor] | None = {} if writes else None
        self.originals: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.memory: set[int] = set()
        self.stray = HostOperands.NONE

    def to_host(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if on_device(value):
                alias = host_alias(value) if self.whole_memory is None else self._within_its_memory(value)
                self.originals[id(alias)] = (value, alias)
                self.memory.add(alias.untyped_storage().data_ptr())
                return alias
            self.stray = max(self.stray, HostOperands.ANY if value.dim() else HostOperands.ZERO_DIM)
            return value
        if type(value) in (list, tuple):
            return type(value)([self.to_host(each) for each in value])
        return value

    def _within_its_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        """A host alias that shares storage with those of other arguments: writing kernels check overlaps."""
        assert self.whole_memory is not None
        storage = tensor.untyped_storage()
        whole = self.whole_memory.get(storage._cdata)
        if whole is None:
            size = storage.nbytes() // tensor.element_size()
            if tensor.numel() == size and tensor.is_contiguous():
                whole = self.whole_memory[storage._cdata] = host_alias(tensor)
                return whole
            whole = host_alias(run_on_metadata(torch.ops.aten.as_strided.default, tensor, (size,), (1,), 0))
            self.whole_memory[storage._cdata] = whole
        if whole.dtype != tensor.dtype or tensor.is_conj() or tensor.is_neg():
            return host_alias(tensor)
        return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def to_device(self, value: Any) -> Any:
        """The result on the device: the argument itself where an operator works in place."""
        if isinstance(value, torch.Tensor):
            original = self.originals.get(id(value))
            if original is not None:
                return original[0]
            if value.layout is torch.strided and value.untyped_storage().data_ptr() in self.memory:
                return device_alias(value)
            return new_on_device(value)
        if type(value) in (list, tuple):
            return type(value)([self.to_device(each) for each in value])
        return value

    def alias_of(self, tensor: Any) -> torch.Tensor | None:
        """The host alias of an argument; None for anything else."""
        return next((alias for original, alias in self.originals.values() if original is tensor), None)


def run(operator: Operator, /, *arguments: Any, **keywords: Any) -> Any:
    """Run any operator with a device tensor among its arguments, or with the device as its target."""
    facts = _known.get(operator) or _learn(operator)
    processes.use()
    outputs = {name: keywords.pop(name) for name in facts.outputs if name in keywords}
    translation = _Translation(facts.writes)
    host_arguments = [translation.to_host(each) for each in arguments]
    host_keywords = {name: translation.to_host(each) for name, each in keywords.items()}
    if translation.originals and (translation.stray or facts.written or outputs):
        _check_devices(facts, translation.stray, arguments, keywords, outputs)
    if facts.waits:
        given = dict(zip(facts.parameters, arguments, strict=False)) | keywords | outputs
        note_waits(facts.short_name, facts.waits, given)

    lands_on_device = bool(translation.originals or outputs)
    device = host_keywords.get("device")
    if device is not None:
        lands_on_device = is_device(device)
        host_keywords["device"] = HOST
    if host_keywords.get("pin_memory"):
        host_keywords["pin_memory"] = False
    if facts.launches and lands_on_device:
        note_operator(facts.short_name)

    runner: Callable[..., Any] = operator
    for index in facts.tensors:  # a number in a tensor's place arrives as a number: another overload takes it
        if index < len(host_arguments) and type(host_arguments[index]) in _NUMBERS:
            runner = operator.overloadpacket
            break
    if facts.generator is not None and lands_on_device:
        _choose_generator(facts, host_arguments, host_keywords)
    if facts.seeded and lands_on_device:
        runner = functools.partial(drawing_from_device, runner)
    try:
        if outputs:
            return _run_into(facts, functools.partial(runner, *host_arguments, **host_keywords), translation, outputs)
        result = runner(*host_arguments, **host_keywords)
    except NotImplementedError as error:
        raise NotSimulated(f"not simulated: the operator {facts.name} has no kernel on the host") from error
    except RuntimeError as error:
        if _CANNOT_RESIZE not in str(error):
            raise
        raise NotSimulated(f"not simulated: {facts.name} gives an argument another shape") from error
    return translation.to_device(result) if lands_on_device else result


def _check_devices(
    facts: _Facts, stray: HostOperands, arguments: tuple[Any, ...], keywords: dict[str, Any], outputs: dict[str, Any]
) -> None:
    """Raise if a host tensor is not allowed: as an operand, or as an output."""
    check_indexed(facts.name, arguments)
    check_assigned(facts.name, arguments)
    written = [arguments[index] for index in facts.written if index < len(arguments)]
    written += outputs.values()
    if stray > facts.host_operands or any(isinstance(each, torch.Tensor) and not on_device(each) for each in written):
        refuse_mixture(facts.name, (*arguments, *keywords.values(), *outputs.values()))


def _choose_generator(facts: _Facts, arguments: list[Any], keywords: dict[str, Any]) -> None:
    index = facts.generator
    assert index is not None
    if index < len(arguments):
        arguments[index] = device_generator(arguments[index])
    else:
        keywords["generator"] = device_generator(keywords.get("generator"))


def _run_into(
    facts: _Facts, runner: Callable[..., Any], translation: _Translation, outputs: dict[str, Any]
) -> torch.Tensor | tuple[Any, ...] | None:
    """Run an operator that writes to `out=`."""
    must_fit = any(translation.alias_of(each) is not None for each in outputs.values())
    hosts = {name: _host_output(each, translation) for name, each in outputs.items()}
    try:
        runner(**hosts)
    except RuntimeError as error:
        if must_fit or _CANNOT_RESIZE not in str(error):
            raise
        hosts = {name: _empty_like_each(each) for name, each in outputs.items()}
        runner(**hosts)
    for name, output in outputs.items():
        pairs = zip(output, hosts[name], strict=True) if isinstance(output, (list, tuple)) else [(output, hosts[name])]
        for target, host in pairs:
            _take_over(target, host)
    results = tuple(outputs.values())[: facts.returns]
    return results[0] if len(results) == 1 else results or None


def _host_output(output: Any, translation: _Translation) -> Any:
    """The output of the host's kernel: the device's memory; it may only resize memory of its own."""
    if isinstance(output, (list, tuple)):
        return [_host_output(each, translation) for each in output]
    alias = translation.alias_of(output)
    if alias is not None:
        return alias
    return translation.to_host(output) if output.numel() else _empty_like_each(output)


def _empty_like_each(output: Any) -> Any:
    if isinstance(output, (list, tuple)):
        return [_empty_like_each(each) for each in output]
    return torch.empty(0, dtype=output.dtype, device=HOST)


def _take_over(target: torch.Tensor, host: torch.Tensor) -> None:
    """Give a device tensor the output of the host's kernel."""
    if target.shape != host.shape:
        replace_memory(target, host)
    elif target.data_ptr() != host.data_ptr():
        host_alias(target).copy_(host)


def replace_memory(target: torch.Tensor, host: torch.Tensor) -> None:
    """Give a device tensor the memory, shape and strides of a new host tensor."""
    set_memory(target, new_on_device(host).untyped_storage(), 0, host.shape, host.stride())


def set_memory(
    target: torch.Tensor, storage: torch.UntypedStorage, offset: int, shape: Sequence[int], strides: Sequence[int]
) -> None:
    """Put a device tensor over this device memory."""
    run_on_metadata(torch.ops.aten.set_.source_Storage_storage_offset, target, storage, offset, shape, strides)


def run_on_metadata(operator: Operator, /, *arguments: Any, **keywords: Any) -> Any:
    """Run an operator that only uses shapes and strides: the host's kernel accepts device tensors, too."""
    processes.use()
    return operator.redispatch(_HOST_KEYS, *arguments, **keywords)
