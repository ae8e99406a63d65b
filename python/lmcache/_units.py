"""What the server builds: a class of a package, or the modules of a package's factory."""

from __future__ import annotations

import json
import math
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

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
)
from lmcache.v1.multiprocess.ext_server_module import (
    ExtServerModuleBuildContext,
    ExtServerModuleSpec,
    call_registrars,
    components_of,
    iter_server_module_handlers,
)
from lmcache.v1.multiprocess.modules._builtin import BuiltinModule, NativeModule
from lmcache.v1.multiprocess.request_handler import iter_request_handlers

_MAX_DEPTH = 64
_logger = init_logger(__name__)


class BuildContext(ModuleBuildContext):
    """Has the server's own modules, too, as soon as the server has built them."""

    def __init__(self, *arguments: Any, python_names: Sequence[str] = ()) -> None:
        super().__init__(*arguments)
        self._python_names = set(python_names)
        self._server_names: Set[str] = set()

    def _all(self) -> Dict[str, Any]:
        names = [name for name in host().built_modules() if name not in self._python_names]
        for name in self._server_names - set(names):
            self._modules.pop(name, None)
        for name in names:
            if name not in self._modules:
                self._modules[name] = self._stand_in(name)
        self._server_names = set(names)
        return self._modules

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
        self._modules[name] = module
        if liveness_methods(module) is not None:
            self.add_liveness_target(module)

    def drop_built(self, modules: Sequence[Any]) -> None:
        """They are about to be closed."""
        for name in [name for name, one in self._modules.items() if any(one is m for m in modules)]:
            del self._modules[name]
        self._targets[:] = [one for one in self._targets if not any(one is m for m in modules)]


class Unit:
    """One entry of the server's graph."""

    deferred = False

    def __init__(self, spec: ExtServerModuleSpec, name: str) -> None:
        self.spec = spec
        self.name = name
        self.dependencies: List[str] = []
        self.modules: List[Any] = []
        self.zmq_registrars: Sequence[Callable[[Any], Any]] = ()
        self.grpc_registrars: Sequence[Callable[[Any], Any]] = ()

    def builder(self) -> str:
        """What makes the modules, for texts."""
        raise NotImplementedError

    def build(self) -> None:
        """Fills in ``modules``."""
        raise NotImplementedError

    def create(self) -> Optional[Dict[str, Any]]:
        self.build()
        if not self.modules and not self.zmq_registrars:
            return None
        try:
            tables = [tables_of(module) for module in self.modules]
            built = {
                "instance": self.modules[0] if len(self.modules) == 1 else self,
                "operations": joined_operations(tables),
                "envelopes": joined_envelopes(tables),
            }
        except (AttributeError, KeyError, TypeError, ValueError) as failure:
            raise StartError(str(failure)) from None
        built["liveness"] = joined_liveness(self.modules)
        for position, module in enumerate(self.modules):
            _context.add_built(self.name if not position else f"{self.name}.{position}", module)
        return built

    def register_zmq(self, server: Any) -> None:
        for registrar in self.zmq_registrars:
            registrar(server)
        for module in self.modules:
            attribute = "register_zmq_services"
            found = getattr(module, attribute, None)
            if found is not None and not callable(found):
                raise StartError(f"{type(module).__name__}.{attribute} must be callable")
            call_registrars(attribute, module, server, self.zmq_registrars)

    def tell_about_grpc(self) -> None:
        """Services for a transport that this server does not have are not lost in silence."""
        attribute = "register_grpc_services"
        if self.grpc_registrars or any(getattr(m, attribute, None) for m in self.modules):
            _logger.info(
                "%s: %s() is not called: the transport of this server is zmq, and the gRPC "
                "transport is not built yet",
                self.name,
                attribute,
            )

    def report_status(self) -> str:
        merged: Dict[str, Any] = {}
        for module in self.modules:
            status = module.report_status()
            if not isinstance(status, dict):
                raise TypeError(
                    f"report_status returned {type(status).__name__}, expected a dict"
                )
            merged.update(json_value(status, 0))
        return json.dumps(merged)

    def close(self) -> None:
        failures = []
        _context.drop_built(self.modules)
        for module in reversed(self.modules):
            try:
                module.close()
            except BaseException as failure:
                failures.append(failure)
        for other in failures[1:]:
            log_exception(other, f"close of a module of {self.name} failed")
        if failures:
            raise failures[0]


class ClassUnit(Unit):
    """A ``DiscoverableModule``."""

    def __init__(self, cls: type, spec: ExtServerModuleSpec, name: str) -> None:
        super().__init__(spec, name)
        self.cls = cls
        self.deferred = bool(getattr(cls, "deferred", False))

    def builder(self) -> str:
        return f"create() of server module {self.name}"

    def build(self) -> None:
        instance = self.cls.create(_context)  # type: ignore[attr-defined]
        if instance is None:
            return
        if not is_engine_module(instance):
            raise StartError(
                f"server module {self.spec.module_path} class {self.cls.__name__} "
                f"returned a non-EngineModule value: {instance!r}"
            )
        self.modules = [instance]


class FactoryUnit(Unit):
    """A factory of the first two generations."""

    def __init__(
        self, factory: Callable[[Any], Any], spec: ExtServerModuleSpec, name: str
    ) -> None:
        super().__init__(spec, name)
        self.factory = factory

    def builder(self) -> str:
        return f"server module factory {self.spec.module_path}.{self.spec.factory_name}"

    def build(self) -> None:
        before = [
            module
            for module in _context.built
            if isinstance(module, BuiltinModule) and not module.deferred
        ]
        for unit in _all:
            if isinstance(unit, FactoryUnit):
                before.extend(unit.modules)
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
            found = components_of(result, f"{self.spec.module_path}.{self.spec.factory_name}")
        except TypeError as failure:
            raise StartError(str(failure)) from None
        self.modules = list(found.modules)
        self.zmq_registrars = tuple(found.zmq_service_registrars)
        self.grpc_registrars = tuple(found.grpc_service_registrars)


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


def inherited_from_server(handler: Any) -> bool:
    """A subclass of one of the server's modules that leaves an operation alone: the server's own
    handler serves it without taking the way through Python."""
    function = getattr(handler, "__func__", None)
    return function is not None and any(
        function in vars(cls).values() for cls in _builtins.CLASSES
    )


def joined_operations(tables: Sequence[Any]) -> List[Dict[str, Any]]:
    """The last module of a factory that handles an operation has it."""
    found: Dict[str, Dict[str, Any]] = {}
    for operations, _envelopes in tables:
        for entry in operations:
            found[entry["operation"]] = entry
    return list(found.values())


def joined_envelopes(tables: Sequence[Any]) -> List[Dict[str, Any]]:
    found: Dict[str, Dict[str, Any]] = {}
    for _operations, envelopes in tables:
        for entry in envelopes:
            if entry["method"] in found:
                raise ValueError(f"duplicate server module method: {entry['method']}")
            found[entry["method"]] = entry
    return list(found.values())


def joined_liveness(modules: Sequence[Any]) -> Optional[Tuple[Any, ...]]:
    targets = [methods for methods in map(liveness_methods, modules) if methods is not None]
    if len(targets) <= 1:
        return targets[0] if targets else None

    def touch(instance_id: int) -> None:
        each([(target[0], (instance_id,)) for target in targets])

    def reap(timeout_s: float, grace_s: float) -> List[int]:
        lists = each([(target[1], (timeout_s, grace_s)) for target in targets])
        return [instance_id for reaped in lists for instance_id in reaped or ()]

    def count() -> int:
        return sum(each([(target[2], ()) for target in targets]))

    def drop(instance_id: int) -> None:
        each([(target[3], (instance_id,)) for target in targets])

    return touch, reap, count, drop


def each(calls: Sequence[Tuple[Any, Tuple[Any, ...]]]) -> List[Any]:
    """Makes all the calls, whichever of them fail; then the first failure is raised."""
    results, failures = [], []
    for function, arguments in calls:
        try:
            results.append(function(*arguments))
        except Exception as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
    return results


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
    memory = (section.get("l1_manager_config") or {}).get("memory_config") or {}
    return StorageManager(memory.get("align_bytes", 4096))


def unit(index: int) -> Unit:
    return _all[index]
