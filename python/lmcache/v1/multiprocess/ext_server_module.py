"""Server modules from other packages: ``@server_module_handler``, specifications, factories."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, TypeVar

from lmcache.logging import init_logger
from lmcache.v1.multiprocess.engine_module import is_engine_module
from lmcache.v1.multiprocess.protocols.server_module import (
    ServerModuleCallRequest,
    ServerModuleCallResponse,
)
from lmcache.v1.multiprocess.request_handler import (
    HandlerType,
    class_members,
    declared,
    request_handler,
    unwrapped,
)

__all__ = [
    "DEFAULT_FACTORY_NAME",
    "ExtServerModuleBuildContext",
    "ExtServerModuleComponents",
    "ExtServerModuleRouter",
    "ExtServerModuleSpec",
    "build_server_module_router",
    "iter_server_module_handlers",
    "load_server_module_components",
    "parse_server_module_specs",
    "register_grpc_services",
    "register_zmq_services",
    "server_module_handler",
]

HANDLER_ATTRIBUTE = "__lmcache_server_module_handler__"
DEFAULT_FACTORY_NAME = "build_server_modules"

F = TypeVar("F", bound=Callable[..., Any])
_logger = init_logger(__name__)


# ---- @server_module_handler ----


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
    found: Dict[str, BoundServerModuleHandler] = {}
    for name, member in class_members(module):
        options = declared(member, HANDLER_ATTRIBUTE) if callable(unwrapped(member)) else None
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


# ---- specifications: the values of --server-module ----


@dataclass(frozen=True)
class ExtServerModuleSpec:
    """One ``--server-module``."""

    module_path: str
    config: Dict[str, Any] = field(default_factory=dict)
    factory_name: str = DEFAULT_FACTORY_NAME

    @classmethod
    def from_dict(cls, value: Any) -> "ExtServerModuleSpec":
        """Checks what an operator wrote; ValueError. Unknown members are ignored."""
        if not isinstance(value, dict):
            raise ValueError("--server-module entries must be JSON objects")
        module_path = value.get("module_path")
        if not isinstance(module_path, str) or not module_path:
            raise ValueError("server module module_path must be a non-empty string")
        factory_name = value.get("factory_name", DEFAULT_FACTORY_NAME)
        if not isinstance(factory_name, str) or not factory_name:
            raise ValueError("server module factory_name must be a non-empty string")
        config = value.get("config", {})
        if not isinstance(config, dict):
            raise ValueError("server module config must be a JSON object")
        return cls(module_path, config, factory_name)


def parse_server_module_specs(values: Optional[Iterable[str]]) -> List[ExtServerModuleSpec]:
    """Specs from the texts of ``--server-module``, in order; each one object or a list."""
    specs: List[ExtServerModuleSpec] = []
    for text in values or ():
        try:
            value = json.loads(text)
        except ValueError as failure:
            raise ValueError(f"--server-module must be valid JSON: {failure}") from failure
        entries = value if isinstance(value, list) else [value]
        specs.extend(ExtServerModuleSpec.from_dict(entry) for entry in entries)
    return specs


# ---- factories: how packages of the first two generations bring their modules ----


@dataclass
class ExtServerModuleBuildContext:
    """The argument of a factory."""

    server_context: Any = None
    mp_config: Any = None
    coordinator_config: Any = None
    modules: Tuple[Any, ...] = ()
    config: Dict[str, Any] = field(default_factory=dict)


@dataclass
class ExtServerModuleComponents:
    """What a factory may return when it has registrars beside modules."""

    modules: Sequence[Any] = ()
    grpc_service_registrars: Sequence[Callable[[Any], Any]] = ()
    zmq_service_registrars: Sequence[Callable[[Any], Any]] = ()


def components_of(result: Any, origin: str) -> ExtServerModuleComponents:
    """A factory's result as components; ``origin`` is its path and name. TypeError."""
    factory = f"server module factory {origin}"
    if result is None:
        return ExtServerModuleComponents()
    if is_engine_module(result):
        return ExtServerModuleComponents([result])
    if isinstance(result, (list, tuple)):
        return ExtServerModuleComponents(_checked_modules(result, factory))
    parts = ("modules", "grpc_service_registrars", "zmq_service_registrars")
    if all(_is_sequence(getattr(result, part, None)) for part in parts):
        for part in parts[1:]:
            for registrar in getattr(result, part):
                if not callable(registrar):
                    raise TypeError(
                        f"{factory} returned {part} containing a non-callable value: {registrar!r}"
                    )
        return ExtServerModuleComponents(
            _checked_modules(result.modules, factory),
            list(result.grpc_service_registrars),
            list(result.zmq_service_registrars),
        )
    raise TypeError(
        f"{factory} must return an EngineModule, a sequence of EngineModule, or None"
    )


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _checked_modules(modules: Iterable[Any], factory: str) -> List[Any]:
    checked = list(modules)
    for module in checked:
        if not is_engine_module(module):
            raise TypeError(
                f"{factory} returned a sequence containing a non-EngineModule value: {module!r}"
            )
    return checked


def find_factory(module: Any, spec: ExtServerModuleSpec) -> Callable[[Any], Any]:
    """The factory that a spec names; AttributeError, TypeError."""
    factory = getattr(module, spec.factory_name)
    if not callable(factory):
        raise TypeError(
            f"server module factory {spec.module_path}.{spec.factory_name} is not callable"
        )
    return factory


def load_server_module_components(
    specs: Iterable[ExtServerModuleSpec],
    *,
    server_context: Any = None,
    mp_config: Any = None,
    coordinator_config: Any = None,
    modules: Sequence[Any] = (),
) -> ExtServerModuleComponents:
    """Imports the packages and calls their factories, each with the modules before it."""
    loaded = ExtServerModuleComponents([], [], [])
    for spec in specs:
        factory = find_factory(importlib.import_module(spec.module_path), spec)
        context = ExtServerModuleBuildContext(
            server_context,
            mp_config,
            coordinator_config,
            (*modules, *loaded.modules),
            spec.config,
        )
        found = components_of(factory(context), f"{spec.module_path}.{spec.factory_name}")
        loaded.modules = [*loaded.modules, *found.modules]
        loaded.grpc_service_registrars = [
            *loaded.grpc_service_registrars,
            *found.grpc_service_registrars,
        ]
        loaded.zmq_service_registrars = [
            *loaded.zmq_service_registrars,
            *found.zmq_service_registrars,
        ]
    return loaded


# ---- registrars ----


def call_registrars(attribute: str, module: Any, server: Any, done: Sequence[Any] = ()) -> None:
    """Calls a module's registrar method unless it has none or it is among those done."""
    registrar = getattr(module, attribute, None)
    if registrar is None:
        return
    if not callable(registrar):
        raise TypeError(f"{type(module).__name__}.{attribute} must be callable")
    if registrar not in done:
        registrar(server)


def register_zmq_services(
    server: Any, modules: Iterable[Any], registrars: Sequence[Callable[[Any], Any]] = ()
) -> None:
    """Calls explicit registrars, then the modules' ``register_zmq_services``, each once."""
    _register("register_zmq_services", server, modules, registrars)


def register_grpc_services(
    server: Any, modules: Iterable[Any], registrars: Sequence[Callable[[Any], Any]] = ()
) -> None:
    """Calls explicit registrars, then the modules' ``register_grpc_services``, each once."""
    _register("register_grpc_services", server, modules, registrars)


def _register(
    attribute: str, server: Any, modules: Iterable[Any], registrars: Sequence[Callable[[Any], Any]]
) -> None:
    for registrar in registrars:
        registrar(server)
    for module in modules:
        call_registrars(attribute, module, server, registrars)


# ---- the router, for tests of plugins: in the server it is part of the server ----


class ExtServerModuleRouter:
    """Answers ``server_module_call`` from the handlers of some modules."""

    def __init__(self, modules: Iterable[Any], context: Any = None) -> None:
        self.context = context
        self._handlers: Dict[str, Callable[[bytes], bytes]] = {}
        for module in modules:
            for bound in iter_server_module_handlers(module):
                if bound.method in self._handlers:
                    raise ValueError(f"duplicate server module method: {bound.method}")
                self._handlers[bound.method] = bound.handler

    @property
    def methods(self) -> List[str]:
        return sorted(self._handlers)

    @request_handler(HandlerType.BLOCKING)
    def server_module_call(self, request: ServerModuleCallRequest) -> ServerModuleCallResponse:
        handler = self._handlers.get(request.method)
        if handler is None:
            return _failed(f"unknown server module method: {request.method}")
        try:
            result: Any = handler(request.payload)
        except BaseException as failure:
            _logger.exception("server module method %s failed", request.method)
            return _failed(str(failure))
        if isinstance(result, (bytes, bytearray, memoryview)):
            return ServerModuleCallResponse(True, bytes(result), "")
        close = getattr(result, "close", None)  # of a coroutine that nobody will await
        if close is not None and hasattr(result, "cr_code"):
            close()
        return _failed(
            f"server module method {request.method} returned {type(result).__name__}, "
            "expected bytes"
        )

    def report_status(self) -> Dict[str, Any]:
        return {"server_module_plugins": {"methods": self.methods}} if self._handlers else {}

    def close(self) -> None:
        return None


def _failed(text: str) -> ServerModuleCallResponse:
    return ServerModuleCallResponse(False, b"", text)


def build_server_module_router(
    modules: Iterable[Any], context: Any = None
) -> ExtServerModuleRouter:
    """A router over the handlers of all modules."""
    return ExtServerModuleRouter(modules, context)
