"""The fused cells of recurrent layers, which exist for accelerators only and so have no kernel on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from torchperf_lint.verify.simulated.journal import note_operator
from torchperf_lint.verify.simulated.memory import host_alias, new_on_device
from torchperf_lint.verify.simulated.names import HOST

if TYPE_CHECKING:
    from torch import Tensor

    Maybe = Tensor | None


def lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cell: Tensor, input_bias: Maybe = None, hidden_bias: Maybe = None
) -> tuple[Tensor, ...]:
    """`_thnn_fused_lstm_cell`: the new hidden state, the new cell and the gates, which backward needs."""
    note_operator("_thnn_fused_lstm_cell")
    gates = _with_bias(input_gates, input_bias) + _with_bias(hidden_gates, hidden_bias)
    enter, forget, candidate, leave = gates.chunk(4, 1)
    enter, forget, candidate, leave = enter.sigmoid(), forget.sigmoid(), candidate.tanh(), leave.sigmoid()
    new_cell = forget * host_alias(cell) + enter * candidate
    workspace = torch.cat([enter, forget, candidate, leave], 1)
    return _on_device(leave * new_cell.tanh(), new_cell, workspace)


def lstm_cell_backward(
    grad_hidden: Maybe, grad_cell: Maybe, cell: Tensor, new_cell: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, ...]:
    """`_thnn_fused_lstm_cell_backward_impl`: the gradients of the gates, the old cell and the bias."""
    note_operator("_thnn_fused_lstm_cell_backward")
    cell, new_cell, workspace = host_alias(cell), host_alias(new_cell), host_alias(workspace)
    enter, forget, candidate, leave = workspace.chunk(4, 1)
    squashed = new_cell.tanh()
    from_hidden = torch.zeros_like(new_cell) if grad_hidden is None else host_alias(grad_hidden)
    from_cell = from_hidden * leave * (1 - squashed * squashed)
    if grad_cell is not None:
        from_cell = from_cell + host_alias(grad_cell)
    grad_gates = torch.cat(
        [
            from_cell * candidate * enter * (1 - enter),
            from_cell * cell * forget * (1 - forget),
            from_cell * enter * (1 - candidate * candidate),
            from_hidden * squashed * leave * (1 - leave),
        ],
        1,
    )
    grad_bias = grad_gates.sum(0) if has_bias else torch.empty(0, device=HOST)
    return _on_device(grad_gates, from_cell * forget, grad_bias)


def gru_cell(
    input_gates: Tensor, hidden_gates: Tensor, hidden: Tensor, input_bias: Maybe = None, hidden_bias: Maybe = None
) -> tuple[Tensor, ...]:
    """`_thnn_fused_gru_cell`: the new hidden state and what backward needs."""
    note_operator("_thnn_fused_gru_cell")
    hidden = host_alias(hidden)
    input_reset, input_update, input_new = _with_bias(input_gates, input_bias).chunk(3, 1)
    hidden_reset, hidden_update, hidden_new = _with_bias(hidden_gates, hidden_bias).chunk(3, 1)
    reset, update = (input_reset + hidden_reset).sigmoid(), (input_update + hidden_update).sigmoid()
    new = (input_new + reset * hidden_new).tanh()
    workspace = torch.cat([reset, update, new, hidden, hidden_new], 1)
    return _on_device(new + update * (hidden - new), workspace)


def gru_cell_backward(grad_hidden: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Tensor, ...]:
    """`_thnn_fused_gru_cell_backward`: the gradients of both gates, the old hidden state and both biases."""
    note_operator("_thnn_fused_gru_cell_backward")
    grad_hidden = host_alias(grad_hidden)
    reset, update, new, hidden, hidden_new = host_alias(workspace).chunk(5, 1)
    grad_update = grad_hidden * (hidden - new) * update * (1 - update)
    grad_new = grad_hidden * (1 - update) * (1 - new * new)
    grad_reset = grad_new * hidden_new * reset * (1 - reset)
    grad_input = torch.cat([grad_reset, grad_update, grad_new], 1)
    grad_gates = torch.cat([grad_reset, grad_update, grad_new * reset], 1)
    absent = torch.empty(0, device=HOST)
    biases = (grad_input.sum(0), grad_gates.sum(0)) if has_bias else (absent, absent)
    return _on_device(grad_input, grad_gates, grad_hidden * update, *biases)


def _with_bias(gates: Tensor, bias: Maybe) -> Tensor:
    return host_alias(gates) if bias is None else host_alias(gates) + host_alias(bias)


def _on_device(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(new_on_device(each) for each in tensors)
