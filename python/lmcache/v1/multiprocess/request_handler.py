"""``@request_handler``: a module's method that serves an operation of the protocol.

A module can replace the handler of an operation that exists; it cannot add operations. For new
calls there is ``lmcache.v1.multiprocess.ext_server_module.server_module_handler``.
"""

from __future__ import annotations

import enum
import inspect
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional, Tuple, TypeVar

__all__ = [
    "BoundRequestHandler",
    "HandlerType",
    "RequestHandlerOptions",
    "get_request_handler_options",
    "iter_request_handlers",
    "request_handler",
]

OPTIONS_ATTRIBUTE = "__lmcache_request_handler_options__"

F = TypeVar("F", bound=Callable[..., Any])


class HandlerType(enum.Enum):
    """Where a handler runs: SYNC one at a time in arrival order, BLOCKING on a thread pool."""

    SYNC = "SYNC"
    BLOCKING = "BLOCKING"
    NON_BLOCKING = "NON_BLOCKING"  # refused when the server starts


@dataclass(frozen=True)
class RequestHandlerOptions:
    """What ``@request_handler`` was given; ``operation`` None stands for the method's name."""

    operation: Optional[str]
    handler_type: HandlerType
    requires_client_affinity: bool


@dataclass(frozen=True)
class BoundRequestHandler:
    """A handler of one module instance."""

    operation: str
    handler: Callable[..., Any]
    options: RequestHandlerOptions


def request_handler(
    handler_type: HandlerType = HandlerType.SYNC,
    *,
    operation: Optional[str] = None,
    requires_client_affinity: bool = False,
) -> Callable[[F], F]:
    """Declares a method as the handler of an operation.

    With ``requires_client_affinity`` all calls of one client run on one thread of a pool.
    """
    if requires_client_affinity and handler_type is not HandlerType.BLOCKING:
        raise ValueError("Client affinity requires HandlerType.BLOCKING")
    options = RequestHandlerOptions(operation, handler_type, requires_client_affinity)

    def declare(function: F) -> F:
        setattr(function, OPTIONS_ATTRIBUTE, options)
        return function

    return declare


def unwrapped(member: Any) -> Any:
    """The function inside a static or class method."""
    return member.__func__ if isinstance(member, (staticmethod, classmethod)) else member


def declared(member: Any, attribute: str) -> Any:
    """What a decorator has left on a function: below ``@staticmethod`` or above it."""
    found = getattr(member, attribute, None)
    return found if found is not None else getattr(unwrapped(member), attribute, None)


def get_request_handler_options(function: Any) -> Optional[RequestHandlerOptions]:
    """The options of a decorated function or method, else None."""
    return declared(function, OPTIONS_ATTRIBUTE)


def class_members(module: Any) -> Iterator[Tuple[str, Any]]:
    """Names and raw attributes of an instance's class, inherited ones included, by name."""
    for name in sorted(dir(type(module))):
        try:
            yield name, inspect.getattr_static(type(module), name)
        except AttributeError:
            continue


def iter_request_handlers(module: Any) -> Tuple[BoundRequestHandler, ...]:
    """The handlers of a module instance, sorted by operation."""
    found = {}
    for name, member in class_members(module):
        options = get_request_handler_options(member)
        if not isinstance(options, RequestHandlerOptions):
            continue
        operation = options.operation or name
        if operation in found:
            raise ValueError(f"{type(module).__name__} has multiple handlers for '{operation}'")
        found[operation] = BoundRequestHandler(operation, getattr(module, name), options)
    return tuple(found[operation] for operation in sorted(found))
