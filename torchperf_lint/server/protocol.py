"""The end of a session, as the protocol wants it: what the library leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol.types import SHUTDOWN
from pygls.exceptions import JsonRpcInvalidRequest
from pygls.protocol import LanguageServerProtocol

if TYPE_CHECKING:
    from pygls.protocol.json_rpc import RPCMessage


class Protocol(LanguageServerProtocol):
    """The library's protocol, which also answers what is asked after `shutdown`, and knows whether that was asked."""

    is_shut_down = False

    def handle_message(self, message: RPCMessage) -> None:
        """Refuse a request after `shutdown`; pass on every other message."""
        asked = getattr(message, "method", None)
        if self.is_shut_down and asked is not None and hasattr(message, "id"):
            refusal = JsonRpcInvalidRequest("the session has been shut down")
            self._send_response(message.id, error=refusal.to_response_error())
            return
        self.is_shut_down |= asked == SHUTDOWN
        super().handle_message(message)
