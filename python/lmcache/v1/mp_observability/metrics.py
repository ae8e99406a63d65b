"""Counters and gauges of a module on the server's ``/metrics``.

They appear as ``lmcached_module_<module>_<name>``, the class ``StoreCounter`` as
``store_counter``. Outside the server they count nothing.
"""

from __future__ import annotations

from typing import Any, Optional

from lmcache import _bridge

__all__ = ["Counter", "Gauge"]


def _owner(module: Any) -> str:
    if isinstance(module, str):
        return module
    cls = module if isinstance(module, type) else type(module)
    return getattr(cls, "module_name", "") or cls.__name__


class Counter:
    """Only grows. ``module``: the module (or its class, or its name) that the counter is of."""

    def __init__(self, module: Any, name: str, help: str, label: Optional[str] = None) -> None:
        self._handle: Any = None
        if _bridge.INSIDE:
            self._handle = _bridge.host().metric_counter(_owner(module), name, help, label)

    def add(self, by: int = 1, label_value: str = "") -> None:
        if self._handle is not None:
            _bridge.host().metric_add(self._handle, label_value, by)


class Gauge:
    """Goes up and down."""

    def __init__(self, module: Any, name: str, help: str, label: Optional[str] = None) -> None:
        self._handle: Any = None
        if _bridge.INSIDE:
            self._handle = _bridge.host().metric_gauge(_owner(module), name, help, label)

    def set(self, to: float, label_value: str = "") -> None:
        if self._handle is not None:
            _bridge.host().metric_set(self._handle, label_value, to)
