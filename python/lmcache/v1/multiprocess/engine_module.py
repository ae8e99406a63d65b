"""Server modules: what a class must be, and what it is built with."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from types import ModuleType
from typing import (
    Any,
    ClassVar,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
    overload,
    runtime_checkable,
)

__all__ = [
    "DiscoverableModule",
    "EngineModule",
    "InstanceLivenessTarget",
    "ModuleBuildContext",
    "discover_modules",
    "order_modules",
]

T = TypeVar("T")


@runtime_checkable
class EngineModule(Protocol):
    """What the server asks of every module instance."""

    @property
    def context(self) -> Any: ...

    def report_status(self) -> Dict[str, Any]: ...

    def close(self) -> None: ...


@runtime_checkable
class InstanceLivenessTarget(Protocol):
    """State kept per worker. Any object with these four methods is a target; inherit from this
    class for defaults that do nothing."""

    def touch_instance(self, instance_id: int) -> None:
        return None

    def reap_stale_instances(
        self, reap_timeout_s: float, registration_grace_s: float
    ) -> List[int]:
        return []

    def tracked_instance_count(self) -> int:
        return 0

    def drop_instance_state(self, instance_id: int) -> None:
        return None


class DiscoverableModule(ABC):
    """Base of every module class that the server finds by importing ``module_path``.

    Instances also need ``context``, ``report_status()`` and ``close()`` (see ``EngineModule``).
    """

    module_name: ClassVar[str] = ""
    module_dependencies: ClassVar[Sequence[Union[str, type]]] = ()
    deferred: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def create(cls, build_ctx: "ModuleBuildContext") -> Optional[Any]:
        """Builds the module; None when it does not apply to this server."""


def is_engine_module(value: Any) -> bool:
    """Whether a value can be used as a module: ``context``, ``report_status()``, ``close()``."""
    return (
        hasattr(value, "context")
        and callable(getattr(value, "report_status", None))
        and callable(getattr(value, "close", None))
    )


LIVENESS_METHODS = (
    "touch_instance",
    "reap_stale_instances",
    "tracked_instance_count",
    "drop_instance_state",
)


def liveness_methods(module: Any) -> Optional[Tuple[Any, ...]]:
    """The four methods of a liveness target, in the order above, or None."""
    methods = tuple(getattr(module, name, None) for name in LIVENESS_METHODS)
    return methods if all(callable(method) for method in methods) else None


def name_of(cls: type) -> str:
    """``module_name``, or the class's own name where that is empty."""
    name = getattr(cls, "module_name", "")
    return name if isinstance(name, str) and name else cls.__name__


def dependencies_of(cls: type) -> Tuple[Any, ...]:
    """The declared dependencies, whichever of the two spellings holds them."""
    for attribute in ("module_dependencies", "dependencies"):
        declared = getattr(cls, attribute, ())
        if isinstance(declared, (list, tuple)) and declared:
            return tuple(declared)
    return ()


class ModuleBuildContext:
    """What ``create`` gets: the server's context, configuration and the modules built so far."""

    def __init__(
        self,
        engine_context: Any = None,
        mp_config: Any = None,
        coordinator_config: Any = None,
        configs: Optional[Mapping[type, Dict[str, Any]]] = None,
    ) -> None:
        self.engine_context = engine_context
        self.mp_config = mp_config
        self.coordinator_config = coordinator_config
        self._configs = configs if configs is not None else {}
        self._empty: Dict[type, Dict[str, Any]] = {}
        self._modules: Dict[str, Any] = {}
        self._targets: List[Any] = []

    # ---- what modules ask ----

    @property
    def built(self) -> List[Any]:
        """Instances built so far, in construction order."""
        return list(self._all().values())

    @property
    def module_names(self) -> List[str]:
        return sorted(self._all())

    @property
    def liveness_targets(self) -> List[Any]:
        """Live: a target that is built later appears in it."""
        return self._targets

    @overload
    def require(self, name: str, type: Optional[Type[T]] = None) -> T: ...

    @overload
    def require(self, name: Type[T], type: None = None) -> T: ...

    def require(self, name: Any, type: Any = None) -> Any:
        """The instance of a module that is built: by its class, or by name and class."""
        wanted = name if type is None and inspect.isclass(name) else type
        key = name_of(name) if inspect.isclass(name) else name
        found = self._find(name, key)
        if found is None:
            built = sorted(self._all())
            raise ValueError(f"Module {key!r} is not built yet; built so far: {built!r}")
        if inspect.isclass(wanted) and not isinstance(found, wanted):
            raise ValueError(
                f"Module {key!r} is a {found.__class__.__name__}, not a {wanted.__name__}"
            )
        return found

    def config_for(self, module_class: Any) -> Dict[str, Any]:
        """The ``config`` of the spec that brought a class (or an instance of it); ``{}`` for a
        class that no spec brought. Always the same object for one class."""
        cls = module_class if inspect.isclass(module_class) else module_class.__class__
        config = self._configs.get(cls)
        return config if config is not None else self._empty.setdefault(cls, {})

    # ---- what the builder does; harmless elsewhere ----

    def register(self, module: Any) -> None:
        if not any(module is known for known in self._modules.values()):
            self._modules.setdefault(name_of(module.__class__), module)

    def add_liveness_target(self, module: Any) -> None:
        if not any(module is known for known in self._targets):
            self._targets.append(module)

    def _all(self) -> Dict[str, Any]:
        return self._modules

    def _find(self, wanted: Any, key: str) -> Any:
        modules = self._all()
        if inspect.isclass(wanted):
            for module in modules.values():
                if module.__class__ is wanted:
                    return module
            return next((m for m in modules.values() if isinstance(m, wanted)), None)
        if key in modules:
            return modules[key]
        return next((m for m in modules.values() if m.__class__.__name__ == key), None)


def discover_modules(namespace: ModuleType, module_path: Optional[str] = None) -> List[type]:
    """The concrete module classes that an imported module defines, sorted by attribute name.

    Classes of its own submodules count; abstract ones and those of other packages do not.
    """
    path = module_path if module_path is not None else namespace.__name__
    found: List[type] = []
    for name in sorted(vars(namespace)):
        value = vars(namespace)[name]
        if not inspect.isclass(value) or not issubclass(value, DiscoverableModule):
            continue
        if value is DiscoverableModule or inspect.isabstract(value) or value in found:
            continue
        if value.__module__ == path or value.__module__.startswith(path + "."):
            found.append(value)
    return found


def order_modules(classes: Iterable[type]) -> List[type]:
    """Dependencies first; the given order decides among classes that are ready, those that are
    ``deferred`` come last."""
    nodes = list(classes)
    named = {name_of(cls): cls for cls in nodes}
    named.update({cls.__name__: cls for cls in nodes})
    needs: Dict[type, List[type]] = {}
    for cls in nodes:
        needs[cls] = [
            resolve_dependency(cls, entry, named, nodes) for entry in dependencies_of(cls)
        ]
    ordered: List[type] = []
    while len(ordered) < len(nodes):
        ready = [
            cls for cls in nodes if cls not in ordered and all(n in ordered for n in needs[cls])
        ]
        if not ready:
            names = sorted(cls.__name__ for cls in on_cycles(nodes, needs))
            raise ValueError(f"Module dependency cycle among: {', '.join(names)}")
        ordered.append(min(ready, key=lambda cls: bool(getattr(cls, "deferred", False))))
    return ordered


def resolve_dependency(
    cls: type, entry: Any, named: Mapping[str, type], nodes: Sequence[type]
) -> type:
    """The class that a declared dependency means; ValueError, TypeError for a wrong one."""
    if inspect.isclass(entry):
        if entry in nodes:
            return entry
        raise ValueError(
            f"{cls.__name__} depends on {entry.__name__}, which is not a discoverable module "
            "(load its package with a --server-module of its own)."
        )
    if isinstance(entry, str):
        if entry in named:
            return named[entry]
        raise ValueError(
            f"{cls.__name__} depends on {entry!r}, which is not a discoverable module "
            "(check the module_name spelling)."
        )
    raise TypeError(f"{cls.__name__} has an invalid dependency: {entry!r}")


def on_cycles(nodes: Sequence[type], needs: Mapping[type, Sequence[type]]) -> List[type]:
    """The classes that depend on themselves, directly or not."""

    def reaches(start: type) -> bool:
        seen: List[type] = []
        waiting = list(needs[start])
        while waiting:
            cls = waiting.pop()
            if cls is start:
                return True
            if cls not in seen:
                seen.append(cls)
                waiting.extend(needs.get(cls, ()))
        return False

    return [cls for cls in nodes if reaches(cls)]
