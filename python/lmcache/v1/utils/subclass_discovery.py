"""Finding classes by importing the package that has them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import List, Type, TypeVar

__all__ = ["discover_subclasses"]

T = TypeVar("T")


def discover_subclasses(package_name: str, base: Type[T]) -> List[Type[T]]:
    """The concrete subclasses of ``base`` that a package and its modules define."""
    package = importlib.import_module(package_name)
    modules = [package]
    for info in pkgutil.iter_modules(getattr(package, "__path__", ()), package_name + "."):
        modules.append(importlib.import_module(info.name))
    found: List[Type[T]] = []
    for module in modules:
        for _name, cls in inspect.getmembers(module, inspect.isclass):
            wanted = issubclass(cls, base) and cls is not base and not inspect.isabstract(cls)
            if wanted and cls.__module__ == module.__name__ and cls not in found:
                found.append(cls)
    return found
