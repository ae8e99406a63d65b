"""The operation table: wire form, kind of reply, how a reply is read (zmq-wire 4 and 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Union

from . import messages
from .errors import ProtocolError


def _typed(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, kind) and (kind is not int or not isinstance(value, bool)):
            return value
        raise ProtocolError(f"expected {kind.__name__}, got {type(value).__name__}")

    return read


def _bool(value: Any) -> bool:
    # Servers of some generations send a number where a bool is declared.
    if isinstance(value, (bool, int)):
        return bool(value)
    raise ProtocolError(f"expected bool, got {type(value).__name__}")


def _texts(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise ProtocolError("expected a list of texts")


@dataclass(frozen=True)
class Operation:
    """``read`` is None for void operations; ``may_pend`` allows a reply without result."""

    name: str
    legacy_id: Optional[int]
    read: Optional[Callable[[Any], Any]]
    may_pend: bool = False

    @property
    def wire(self) -> Union[int, str]:
        return self.name if self.legacy_id is None else self.legacy_id

    def result(self, has_frame: bool, value: Any) -> Any:
        """Turns the result frame's value, if there was one, into what the caller gets."""
        if self.read is None:
            if has_frame and value is not None:
                raise ProtocolError(f"{self.name} answered with a result, but it has none")
            return None
        if not has_frame or (value is None and self.may_pend):
            if self.may_pend:
                return None
            raise ProtocolError(f"{self.name} answered without a result")
        return self.read(value)


OPERATIONS: Dict[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("register_kv_cache", 1, None),
        Operation("unregister_kv_cache", 2, None),
        Operation("store", 6, messages.read_transfer),
        Operation("retrieve", 7, messages.read_transfer),
        Operation("lookup", 8, None),
        Operation("query_prefetch_status", 9, _typed(int), may_pend=True),
        Operation("wait_prefetch_status", 10, _typed(int), may_pend=True),
        Operation("query_prefetch_lookup_hits", 11, _typed(int), may_pend=True),
        Operation("free_lookup_locks", 12, None),
        Operation("end_session", 13, None),
        Operation("register_kv_cache_engine_driven_context", 14, messages.read_registration),
        Operation("unregister_kv_cache_engine_driven_context", 15, None),
        Operation("prepare_store", 16, messages.read_prepared_store),
        Operation("commit_store", 17, _bool),
        Operation("prepare_retrieve", 18, messages.read_prepared_retrieve),
        Operation("commit_retrieve", 19, _bool),
        Operation("clear", 20, None),
        Operation("get_chunk_size", 21, _typed(int)),
        Operation("ping", 22, _bool),
        Operation("report_block_allocation", 23, None),
        Operation("noop", 24, _typed(str)),
        Operation("get_experimental", 32, _texts),
        Operation("server_module_call", None, messages.read_server_module_call),
    )
}
