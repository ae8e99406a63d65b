"""What the server builds: a class of a package, or the modules of a package's factory."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from lmcache import _builtins
from lmcache._bridge import StartError, host
from lmcache._config import filled
from lmcache._contracts import operation_entry
from lmcache._report import log_exception
from lmcache.logging import init_logger
from lmcache.v1.distributed.storage_manager import StorageManager
from lmcache.v1.multiprocess.config import (
    CoordinatorConfig,
    MPServerConfig,
)
from lmcache.v1.multiprocess.engine_context import MPCacheServerContext
from lmcache.v1.multiprocess.engine_module import (
    ModuleBuildContext,
    is_engine_module,
    liveness_methods,
    name_of,
)
from lmcache.v1.multiprocess.ext_server_module import (
    ExtServerModuleBuildContext,
    ExtServerModuleComponents,
    ExtServerModuleSpec,
    call_registrars,
    components_of,
    iter_server_module_handlers,
)
from lmcache.v1.multiprocess.modules._builtin import (
    BuiltinModule,
    BuiltinTransferModule,
    NativeModule,
)
from lmcache.v1.multiprocess.request_handler import iter_request_handlers

_MAX_DEPTH = 64
_logger = init_logger(__name__)


class BuildContext(ModuleBuildContext):
    """Has the server's own modules, too, as soon as the server has built them."""

    def __init__(self, *arguments: Any, python_names: Sequence[str] = ()) -> None:
        super().__init__(*arguments)
        self._python_names = set(python_names)

    def _all(self) -> Dict[str, Any]:
        """In construction order; those of packages also before the server lists them."""
        order = host().built_modules()
        known, found = self._modules, {}
        for name in order:
            if name in known:
                found[name] = known[name]
            elif name not in self._python_names:
                found[name] = self._stand_in(name)
        for name, module in known.items():
            of_server = type(module) is NativeModule or type(module) in _builtins.CLASSES
            if name in self._python_names or not of_server:
                found.setdefault(name, module)
        self._modules = found
        return found

    def _stand_in(self, name: str) -> Any:
        cls = _builtins.BY_NAME.get(name)
        context = self.engine_context
        return NativeModule(name, context) if cls is None else cls(context)

    def _find(self, wanted: Any, key: str) -> Any:
        found = super()._find(wanted, key)
        if found is None and isinstance(key, str):
            builtin = _builtins.named(key)
            found = self._modules.get(builtin.__name__) if builtin is not None else None
        return found

    def add_built(self, name: str, module: Any) -> None:
        self._python_names.add(name)
        self._modules[name] = module
        self._sort_targets()

    @property
    def liveness_targets(self) -> List[Any]:
        """Those of the server, too; live."""
        self._sort_targets()
        return self._targets

    def _sort_targets(self) -> None:
        """In construction order; what somebody added by hand stands at the end."""
        built = [one for one in self._all().values() if liveness_methods(one) is not None]
        more = [one for one in self._targets if not any(one is other for other in built)]
        of_server = (*_builtins.CLASSES, NativeModule)
        self._targets[:] = [*built, *(one for one in more if type(one) not in of_server)]

    def drop_built(self, module: Any) -> None:
        """It is about to be closed."""
        for name in [name for name, one in self._modules.items() if one is module]:
            del self._modules[name]
        self._targets[:] = [one for one in self._targets if one is not module]


class Unit:
    """One entry of the server's graph: at most one module."""

    deferred = False

    def __init__(self, spec: ExtServerModuleSpec, name: str) -> None:
        self.spec = spec
        self.name = name
        self.dependencies: List[str] = []
        self.module: Any = None
        self.zmq_registrars: Sequence[Callable[[Any], Any]] = ()  # before the module's own
        self.grpc_registrars: Sequence[Callable[[Any], Any]] = ()
        self.called: Sequence[Callable[[Any], Any]] = ()  # registrars of the whole factory

    def builder(self) -> str:
        """What makes the module, for texts."""
        raise NotImplementedError

    def create(self) -> Optional[Dict[str, Any]]:
        raise NotImplementedError

    def take(self, module: Any) -> Dict[str, Any]:
        """The module is this unit's; what the server needs to know of it."""
        try:
            operations, envelopes = tables_of(module)
        except (AttributeError, KeyError, TypeError, ValueError) as failure:
            raise StartError(str(failure)) from None
        self.module = module
        _context.add_built(self.name, module)
        return {
            "instance": module,
            "operations": operations,
            "envelopes": envelopes,
            "liveness": liveness_of(module),
            **self.registrars(),
        }

    def registrars(self) -> Dict[str, bool]:
        zmq = getattr(self.module, "register_zmq_services", None)
        grpc = getattr(self.module, "register_grpc_services", None)
        if self.grpc_registrars or grpc is not None:
            # Services for a transport that this server does not have are not lost in silence.
            _logger.info(
                "%s: register_grpc_services() is not called: the transport of this server is "
                "zmq, and the gRPC transport is not built yet",
                self.name,
            )
        return {
            "registers_zmq": bool(self.zmq_registrars) or zmq is not None,
            "registers_grpc": bool(self.grpc_registrars) or grpc is not None,
        }

    def register_zmq(self, server: Any) -> None:
        for registrar in self.zmq_registrars:
            registrar(server)
        attribute = "register_zmq_services"
        found = getattr(self.module, attribute, None)
        if found is not None and not callable(found):
            raise StartError(f"{type(self.module).__name__}.{attribute} must be callable")
        call_registrars(attribute, self.module, server, self.called)

    def report_status(self) -> str:
        if self.module is None:
            return "{}"
        status = self.module.report_status()
        if not isinstance(status, dict):
            raise TypeError(f"report_status returned {type(status).__name__}, expected a dict")
        return json.dumps(json_value(status, 0))

    def close(self) -> None:
        if self.module is not None:
            _context.drop_built(self.module)
            self.module.close()


class ClassUnit(Unit):
    """A ``DiscoverableModule``."""

    def __init__(self, cls: type, spec: ExtServerModuleSpec, name: str) -> None:
        super().__init__(spec, name)
        self.cls = cls
        self.deferred = bool(getattr(cls, "deferred", False))

    def builder(self) -> str:
        return f"create() of server module {self.name}"

    def create(self) -> Optional[Dict[str, Any]]:
        instance = self.cls.create(_context)  # type: ignore[attr-defined]
        if instance is None:
            return None
        if not is_engine_module(instance):
            raise StartError(
                f"server module {self.spec.module_path} class {self.cls.__name__} "
                f"returned a non-EngineModule value: {instance!r}"
            )
        with closed_on_failure([instance]):
            return self.take(instance)


class MadeUnit(Unit):
    """A module that a factory made."""


class FactoryUnit(Unit):
    """A factory of the first two generations. Its modules are entries of their own; it is one
    itself only when it has registrars and no module."""

    def __init__(
        self,
        factory: Callable[[Any], Any],
        spec: ExtServerModuleSpec,
        name: str,
        unique: Callable[[str], str],
    ) -> None:
        super().__init__(spec, name)
        self.factory = factory
        self.unique = unique
        self.made: List[Any] = []

    def builder(self) -> str:
        return f"server module factory {self.spec.module_path}.{self.spec.factory_name}"

    def create(self) -> Optional[Dict[str, Any]]:
        found = self._call()
        registrars = tuple(found.zmq_service_registrars)
        self.made = list(found.modules)
        units = [
            MadeUnit(self.spec, self.unique(name_of(type(module)))) for module in found.modules
        ]
        first = units[0] if units else self
        first.zmq_registrars = registrars
        first.grpc_registrars = tuple(found.grpc_service_registrars)
        for one in units:
            one.called = registrars
        if units:
            with closed_on_failure(self.made):
                return {"made": [add(one, module) for one, module in zip(units, self.made)]}
        if not registrars and not first.grpc_registrars:
            return None
        nothing: Dict[str, Any] = {"operations": [], "envelopes": [], "liveness": None}
        return {"instance": self, **nothing, **self.registrars()}

    def _call(self) -> ExtServerModuleComponents:
        before = [
            module
            for module in _context.built
            if isinstance(module, BuiltinModule) and not module.deferred
        ]
        for one in _all:
            if isinstance(one, FactoryUnit):
                before.extend(one.made)
        result = self.factory(
            ExtServerModuleBuildContext(
                _context.engine_context,
                _context.mp_config,
                _context.coordinator_config,
                tuple(before),
                self.spec.config,
            )
        )
        try:
            return components_of(result, f"{self.spec.module_path}.{self.spec.factory_name}")
        except TypeError as failure:
            raise StartError(str(failure)) from None


@contextlib.contextmanager
def closed_on_failure(modules: Sequence[Any]) -> Iterator[None]:
    """Modules that exist, but that the server will not have: nobody else closes them."""
    try:
        yield
    except BaseException:
        for module in reversed(modules):
            _context.drop_built(module)
            try:
                module.close()
            except BaseException as failure:
                log_exception(failure, f"close() of a {type(module).__name__} failed")
        raise


def add(one: Unit, module: Any) -> Dict[str, Any]:
    """A unit that was not there when the server listed them: its description and its tables."""
    _all.append(one)
    return {"index": len(_all) - 1, **description_of(one), **one.take(module)}


def description_of(one: Unit) -> Dict[str, Any]:
    """What the server knows of a unit before it is built."""
    return {
        "name": one.name,
        "dependencies": one.dependencies,
        "deferred": one.deferred,
        "version": version_of(one.spec.module_path),
        "module_path": one.spec.module_path,
    }


def version_of(path: str) -> Optional[str]:
    """``__version__`` of the module or of its package."""
    for name in (path, path.partition(".")[0]):
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str) and version:
            return version
    return None


# ---- tables ----


def tables_of(module: Any) -> Tuple[List[Dict[str, Any]], List[Dict[str, Any]]]:
    """Operations and envelope methods of an instance, checked."""
    operations = [
        operation_entry(bound)
        for bound in iter_request_handlers(module)
        if not inherited_from_server(bound.handler)
    ]
    envelopes = [
        {"method": bound.method, "handler": bound.handler}
        for bound in iter_server_module_handlers(module)
    ]
    return operations, envelopes


def liveness_of(module: Any) -> Optional[Tuple[Any, ...]]:
    """The methods of a target. A subclass of one of the server's modules is none by what it
    inherits: the server asks its own module itself."""
    methods = liveness_methods(module)
    if methods is not None and all(map(_is_of_server, methods)):
        return None
    return methods


def _is_of_server(method: Any) -> bool:
    return getattr(method, "__func__", None) in vars(BuiltinTransferModule).values()


def inherited_from_server(handler: Any) -> bool:
    """A subclass of one of the server's modules that leaves an operation alone: the server's own
    handler serves it without taking the way through Python."""
    function = getattr(handler, "__func__", None)
    return function is not None and any(
        function in vars(cls).values() for cls in _builtins.CLASSES
    )


def json_value(value: Any, depth: int) -> Any:
    """A status as JSON can hold it: keys as text, NaN as null. TypeError."""
    if depth > _MAX_DEPTH:
        raise TypeError("report_status is nested too deeply")
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {
            json_value(str(key), depth): json_value(item, depth + 1)
            for key, item in list(value.items())
        }
    if isinstance(value, (list, tuple)):
        return [json_value(item, depth + 1) for item in list(value)]
    raise TypeError(f"report_status has a {type(value).__name__}, which JSON cannot hold")


# ---- all of them ----

_all: List[Unit] = []
_context: BuildContext = BuildContext()


def begin(units: Sequence[Unit]) -> None:
    """After loading, before the first is built."""
    global _context
    configuration = json.loads(host().config_json())
    mp_config = filled(MPServerConfig, configuration.get("mp_config"))
    specs = json.loads(host().server_modules_json())
    mp_config.server_modules = [ExtServerModuleSpec.from_dict(spec) for spec in specs]
    configs = {unit.cls: unit.spec.config for unit in units if isinstance(unit, ClassUnit)}
    _all[:] = units
    _context = BuildContext(
        MPCacheServerContext(mp_config, storage_manager(configuration)),
        mp_config,
        filled(CoordinatorConfig, configuration.get("coordinator_config")),
        configs,
        python_names=[unit.name for unit in units],
    )


def storage_manager(configuration: Mapping[str, Any]) -> StorageManager:
    section: Any = configuration.get("storage_manager_config") or {}
    l1 = section.get("l1_manager_config") or {}
    memory = l1.get("memory_config") or {}
    return StorageManager(memory.get("align_bytes", 4096), l1.get("read_ttl_seconds", 300.0))


def stop() -> None:
    """The event bus has stopped; modules are about to be closed."""
    if _context.engine_context is not None:
        _context.engine_context.storage_manager.end_prefetches()


def unit(index: int) -> Unit:
    return _all[index]
