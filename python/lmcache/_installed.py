"""Names that a module here does not have, from the same module of an installed LMCache.

Modules of a real LMCache that this package does not bring import from those that it does. What
they want then, and only then, is looked up in the module that this one stands in front of.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any, Callable, Optional


def names_of(module: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for the module of that name."""

    def look_up(name: str) -> Any:
        if not name.startswith("__"):
            behind = _behind(module)
            if behind is not None and hasattr(behind, name):
                return getattr(behind, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return look_up


def _behind(module: str) -> Optional[Any]:
    """The installed module of the same name, imported under another."""
    package, _dot, stem = module.rpartition(".")
    other = f"{module}__installed"
    if other in sys.modules:
        return sys.modules[other]
    own = os.path.dirname(os.path.abspath(getattr(sys.modules[module], "__file__", "") or ""))
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        path = os.path.join(folder, f"{stem}.py")
        if os.path.abspath(folder) == own or not os.path.isfile(path):
            continue
        spec = importlib.util.spec_from_file_location(other, path)
        if spec is None or spec.loader is None:
            continue
        sys.modules[other] = found = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(found)
        except BaseException:
            del sys.modules[other]
            raise
        return found
    return None
