"""Imports the packages that ``--server-module`` names and builds their modules. Main thread."""

from __future__ import annotations

import importlib
import json
from typing import Any, Dict, List, Optional, Sequence

from lmcache._bridge import StartError, host
from lmcache.v1.multiprocess.engine_module import (
    ModuleBuildContext,
    discover_modules,
    is_engine_module,
    liveness_methods,
    name_of,
)
from lmcache.v1.multiprocess.ext_server_module import iter_server_module_handlers
from lmcache.v1.multiprocess.request_handler import iter_request_handlers

_units: List["Unit"] = []
_context = ModuleBuildContext()


class Unit:
    """One class of the graph."""

    def __init__(self, cls: type, path: str) -> None:
        self.cls = cls
        self.path = path
        self.instance: Any = None

    def describe(self) -> Dict[str, Any]:
        return {
            "name": name_of(self.cls),
            "dependencies": [],
            "deferred": False,
            "version": None,
            "module_path": self.path,
        }

    def create(self) -> Optional[Dict[str, Any]]:
        instance = self.cls.create(_context)  # type: ignore[attr-defined]
        if instance is None:
            return None
        if not is_engine_module(instance):
            raise StartError(
                f"server module {self.path} class {self.cls.__name__} "
                f"returned a non-EngineModule value: {instance!r}"
            )
        self.instance = instance
        return {
            "instance": instance,
            "operations": [
                {
                    "operation": bound.operation,
                    "handler_type": bound.options.handler_type.value,
                    "affinity": bound.options.requires_client_affinity,
                    "handler": bound.handler,
                    "arity": bound.handler.__code__.co_argcount - 1,
                    "qualname": bound.handler.__qualname__,
                }
                for bound in iter_request_handlers(instance)
            ],
            "envelopes": [
                {"method": bound.method, "handler": bound.handler}
                for bound in iter_server_module_handlers(instance)
            ],
            "liveness": liveness_methods(instance),
        }

    def report_status(self) -> str:
        return json.dumps(self.instance.report_status())

    def close(self) -> None:
        self.instance.close()


def load(builtin_names: Sequence[str], native_names: Sequence[str]) -> List[Dict[str, Any]]:
    for spec in json.loads(host().server_modules_json()):
        path = spec["module_path"]
        if "/" in path or path.endswith(".so"):
            continue
        for cls in discover_modules(importlib.import_module(path), path):
            _units.append(Unit(cls, path))
    return [unit.describe() for unit in _units]


def unit(index: int) -> Unit:
    return _units[index]
