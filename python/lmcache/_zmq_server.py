"""What ``register_zmq_services`` gets: the request server as modules see it before it starts."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Callable, Iterable, List, Mapping

from lmcache._bridge import host
from lmcache._contracts import adapted, check_signature
from lmcache.v1.multiprocess.request_handler import HandlerType
from lmcache.v1.multiprocess.rpc import get_rpc_spec, operation_name


class HandlerEntry:
    """How an operation is served. ``executor``: which pool a blocking handler runs on."""

    def __init__(self, operation: str, scheduling: str) -> None:
        self.operation = operation
        self.handler_type = HandlerType.SYNC if scheduling == "SYNC" else HandlerType.BLOCKING
        self.requires_client_affinity = scheduling == "AFFINITY"
        if scheduling != "SYNC":
            self.executor = "affinity" if scheduling == "AFFINITY" else "normal"

    def __repr__(self) -> str:
        return f"HandlerEntry({self.operation!r}, {self.handler_type.name})"


class MessageQueueServer:
    """Valid while the registrar runs; ``ctx`` for good."""

    @property
    def ctx(self) -> Any:
        """The ``zmq.Context`` of this process, for sockets of the module's own."""
        import zmq

        return zmq.Context.instance()

    @property
    def handlers(self) -> Mapping[str, HandlerEntry]:
        """The handlers that win, by operation. Read-only."""
        found = host().zmq_handlers()
        return MappingProxyType({name: HandlerEntry(name, how) for name, how in found.items()})

    def add_handler(self, operation: Any, *rest: Any) -> None:
        """``add_handler(operation, handler_type, handler)``: takes an operation over. Older
        callers give the payload types before the handler type."""
        if len(rest) not in (2, 3):
            raise TypeError("add_handler takes an operation, a handler type and a handler")
        handler_type, handler = rest[-2], rest[-1]
        if getattr(handler_type, "name", "") == HandlerType.NON_BLOCKING.name:
            raise ValueError("Non-blocking handler is not supported yet")
        blocking = getattr(handler_type, "name", handler_type) == HandlerType.BLOCKING.name
        self._add(operation, "BLOCKING" if blocking else "SYNC", handler)

    def add_sync_handler(self, rpc_spec: Any, handler: Callable[..., Any]) -> None:
        self._add(rpc_spec, "SYNC", handler)

    def add_blocking_handler(self, rpc_spec: Any, handler: Callable[..., Any]) -> None:
        self._add(rpc_spec, "BLOCKING", handler)

    def add_normal_thread_pool(self, operations: Iterable[Any], max_workers: int) -> None:
        """Threads of their own for these operations."""
        self._add_pool(operations, max_workers, False)

    def add_affinity_thread_pool(self, operations: Iterable[Any], max_workers: int) -> None:
        """As a normal pool, but a client's calls run on one of its threads."""
        self._add_pool(operations, max_workers, True)

    @staticmethod
    def _add(operation: Any, handler_type: str, handler: Callable[..., Any]) -> None:
        name = operation_name(getattr(operation, "operation", operation))
        spec = get_rpc_spec(name)
        payload = check_signature(spec, handler)
        function = adapted(spec, payload, handler)
        host().zmq_add_handler(name, handler_type, False, function, len(payload))

    @staticmethod
    def _add_pool(operations: Iterable[Any], max_workers: int, affinity: bool) -> None:
        names: List[str] = [operation_name(operation) for operation in operations]
        if names:
            host().zmq_add_pool(names, max_workers, affinity)
