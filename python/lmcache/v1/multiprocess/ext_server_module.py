"""Server modules from other packages: ``@server_module_handler`` and their specifications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Tuple, TypeVar

from lmcache.v1.multiprocess.request_handler import class_members, unwrapped

HANDLER_ATTRIBUTE = "__lmcache_server_module_handler__"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ServerModuleHandlerOptions:
    method: str


@dataclass(frozen=True)
class BoundServerModuleHandler:
    """A ``server_module_call`` method of one module instance."""

    method: str
    handler: Callable[[bytes], bytes]


def server_module_handler(method: str) -> Callable[[F], F]:
    """Declares ``(self, payload: bytes) -> bytes`` as the method that clients reach with
    ``server_module_call`` under a namespaced name such as ``"my_package.echo"``."""
    if not isinstance(method, str) or "." not in method:
        raise ValueError("server module handler method must be namespaced")
    options = ServerModuleHandlerOptions(method)

    def declare(function: F) -> F:
        setattr(function, HANDLER_ATTRIBUTE, options)
        return function

    return declare


def iter_server_module_handlers(module: Any) -> Tuple[BoundServerModuleHandler, ...]:
    """The ``@server_module_handler`` methods of a module instance, sorted by method."""
    found = {}
    for name, member in class_members(module):
        function = unwrapped(member)
        if not callable(function):
            continue
        options = getattr(function, HANDLER_ATTRIBUTE, None)
        if options is None:
            continue
        if not isinstance(options, ServerModuleHandlerOptions):
            raise TypeError(
                f"{type(module).__name__}.{name} has invalid server-module handler metadata"
            )
        if options.method in found:
            raise ValueError(f"duplicate server module method: {options.method}")
        found[options.method] = BoundServerModuleHandler(options.method, getattr(module, name))
    return tuple(found[method] for method in sorted(found))
