"""The device's own random stream, independent of the host's generator."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from torchperf_lint.verify.simulated.names import FACE, to_backend
from torchperf_lint.verify.simulated.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

HostGenerator = torch.Generator

# The same seed gives other numbers on CUDA than on the host. So it must here, or a draw that moves from one
# to the other would go unnoticed.
_SALT = 0x5DEECE66D1CE4E5B
_SEED_MASK = (1 << 64) - 1
_DEFAULT_SEED = 67280421310721  # torch's own


# Kernels get another object for the same generator, so it is known by its address.
_device_generators: weakref.WeakValueDictionary[int, DeviceGenerator] = weakref.WeakValueDictionary()


def _address(generator: Any) -> int:
    address: int = generator._cdata
    return address


class DeviceGenerator(HostGenerator):
    """A generator of the device."""

    _seed: int

    def __init__(self) -> None:
        _device_generators[_address(self)] = self
        self.manual_seed(_DEFAULT_SEED)

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device, as programs see it."""
        return FACE

    def manual_seed(self, seed: int) -> DeviceGenerator:
        """Start the stream of this seed."""
        self._seed = int(seed)
        super().manual_seed((self._seed ^ _SALT) & _SEED_MASK)
        return self

    def initial_seed(self) -> int:
        """The stream's seed."""
        return self._seed

    def seed(self) -> int:
        """Start the stream of a random seed."""
        self.manual_seed(HostGenerator().seed())
        return self._seed

    def clone_state(self) -> Any:
        """Not modelled."""
        refuse("Generator.clone_state on the device")

    def graphsafe_get_state(self) -> Any:
        """Not modelled."""
        refuse("CUDA graphs")

    def graphsafe_set_state(self, state: Any) -> Any:
        """Not modelled."""
        refuse("CUDA graphs")


default_generator = DeviceGenerator()


class _EitherGenerator(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, HostGenerator)

    def __call__(cls, device: Any = "cpu") -> HostGenerator:
        if torch.device(to_backend(device) if device is not None else "cpu").type == "cpu":
            return HostGenerator("cpu")
        return DeviceGenerator()


class Generator(metaclass=_EitherGenerator):
    """The replacement of `torch.Generator`: it creates generators of either side."""


def device_generator(given: HostGenerator | None) -> HostGenerator:
    """The generator that an operator on the device draws from; raise what CUDA raises if it was given another."""
    if given is None:
        return default_generator
    if _address(given) not in _device_generators:
        raise RuntimeError(f"Expected a 'cuda' device type for generator but found '{given.device.type}'")
    return given


def check_host_generator(given: HostGenerator | None) -> None:
    """Raise what torch raises where an operator on the host is given a generator of the device."""
    if isinstance(given, DeviceGenerator):
        raise RuntimeError("Expected a 'cpu' device type for generator but found 'cuda'")


def drawing_from_device(operator: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Call an operator that draws from the host's default generator, and let it draw from the device's instead."""
    host_state = torch.default_generator.get_state()
    torch.default_generator.set_state(default_generator.get_state())
    try:
        return operator(*arguments, **keywords)
    finally:
        default_generator.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(host_state)
