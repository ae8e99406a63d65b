"""From ``--server-module`` to a list of what can be built. Main thread."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import re
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from lmcache import _builtins, _units
from lmcache._bridge import StartError, host
from lmcache._report import (
    headline,
    log_exception,
    log_lines,
    place_of,
    text_of,
    without_own_frames,
)
from lmcache.logging import init_logger
from lmcache.v1.multiprocess.engine_module import (
    DiscoverableModule,
    dependencies_of,
    discover_modules,
    name_of,
    on_cycles,
)
from lmcache.v1.multiprocess.ext_server_module import ExtServerModuleSpec, find_factory

_logger = init_logger(__name__)

Spec = Tuple[ExtServerModuleSpec, bool]  # and whether it names its factory


def is_dotted(path: str) -> bool:
    """Whether a module path is for Python; others are shared objects."""
    return "/" not in path and not path.endswith(".so")


def read_specs(text: str) -> List[Spec]:
    """The specs for Python, in order, each path once."""
    specs: Dict[str, Spec] = {}
    for entry in json.loads(text):
        spec = ExtServerModuleSpec.from_dict(entry)
        if not is_dotted(spec.module_path):
            continue
        known = specs.get(spec.module_path)
        if known is None:
            specs[spec.module_path] = (spec, "factory_name" in entry)
        elif known[0].config != spec.config:
            raise StartError(
                f"duplicate server module path with different config: {spec.module_path}"
            )
        else:
            _logger.warning("server module %s is named twice", spec.module_path)
    return list(specs.values())


def import_path(path: str) -> Any:
    """Imports a module; its own failure is shown with its traceback."""
    try:
        return importlib.import_module(path)
    except BaseException as failure:
        what = f"Failed to import engine module {path}"
        line = headline(what, failure, advice_for(failure, path))
        if isinstance(failure, ModuleNotFoundError) and not place_of(failure):
            log_lines(logging.ERROR, [line])  # there is no code of anybody that could be shown
        else:
            log_exception(without_own_frames(failure), line)
        raise StartError(f"{what}: {text_of(failure)}") from None


def advice_for(failure: BaseException, path: str) -> str:
    """What an operator can do about an import that failed; "": only the author can."""
    if isinstance(failure, ModuleNotFoundError):
        name = failure.name or "it"
        package = sys.modules.get(name.partition(".")[0])
        if name == path and ":" in path:
            return f"module_path names a module, not a class in it: {path.partition(':')[0]}"
        if package is not None and "." in name:
            found = getattr(package, "__file__", None) or list(getattr(package, "__path__", []))
            hint = "; module_path names a module, not a class in it" if name == path else ""
            return f"{package.__name__} is there ({found}), this part of it is not{hint}"
        return (
            f"install {name.partition('.')[0]} for {sys.executable} "
            f"(its packages are in {sys.prefix}), or name its folder in PYTHONPATH or its "
            "environment in VIRTUAL_ENV"
        )
    if isinstance(failure, (SystemExit, KeyboardInterrupt)):
        return "a module must not end the process while it is imported"
    return ""


def explain_skipped(module: ModuleType, module_path: str) -> str:
    """Names the classes that would have counted, had they all that a module needs."""
    skipped = [
        f"{cls.__name__} lacks {', '.join(sorted(cls.__abstractmethods__))}"
        for name, cls in sorted(vars(module).items())
        if inspect.isclass(cls)
        and issubclass(cls, DiscoverableModule)
        and inspect.isabstract(cls)
        and (cls.__module__ + ".").startswith(module_path + ".")
    ]
    return f": {'; '.join(skipped)}" if skipped else ""


class Loader:
    """One run over the specs."""

    def __init__(self, builtin_names: Sequence[str], native_names: Sequence[str]) -> None:
        self.native_names = list(native_names)
        self.taken = {*builtin_names, *native_names, *_builtins.BY_NAME}
        self.classes: Dict[type, str] = {}  # and the path of the spec that it belongs to
        self.units: List[Union[_units.ClassUnit, _units.FactoryUnit]] = []

    def run(self, specs: List[Spec]) -> None:
        for spec, factory_named in specs:
            module = import_path(spec.module_path)
            _logger.info(
                "Loaded server module %s%s from %s",
                spec.module_path,
                f" {version}" if (version := _units.version_of(spec.module_path)) else "",
                getattr(module, "__file__", None) or "nowhere",
            )
            classes = [] if factory_named else discover_modules(module, spec.module_path)
            if classes:
                for cls in classes:
                    self._add_class(cls, spec)
            elif factory_named or callable(getattr(module, spec.factory_name, None)):
                self._add_factory(module, spec)
            else:
                raise StartError(
                    f"server module {spec.module_path} defines no concrete DiscoverableModule "
                    f"subclass{explain_skipped(module, spec.module_path)}"
                )
        self._check_dependencies()

    def _add_class(self, cls: type, spec: ExtServerModuleSpec) -> None:
        owner = self.classes.get(cls)
        if owner is None:
            self.classes[cls] = spec.module_path
            self.units.append(_units.ClassUnit(cls, spec, self._unique(name_of(cls))))
        elif len(spec.module_path) > len(owner):  # the longest path that could claim it has it
            self.classes[cls] = spec.module_path
            for unit in self.units:
                if isinstance(unit, _units.ClassUnit) and unit.cls is cls:
                    unit.spec = spec

    def _add_factory(self, module: Any, spec: ExtServerModuleSpec) -> None:
        try:
            factory = find_factory(module, spec)
        except (AttributeError, TypeError) as failure:
            raise StartError(str(failure)) from None
        name = self._unique(f"{spec.module_path}_{spec.factory_name}")
        self.units.append(_units.FactoryUnit(factory, spec, name, self._unique))

    def _unique(self, name: str) -> str:
        """A name that the server can use: letters, digits and ``_``, and not taken."""
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        wanted, number = plain, 1
        while wanted in self.taken:
            number += 1
            wanted = f"{plain}_{number}"
        self.taken.add(wanted)
        return wanted

    # ---- dependencies ----

    def _check_dependencies(self) -> None:
        needs: Dict[type, List[type]] = {}
        for unit in self.units:
            if isinstance(unit, _units.ClassUnit):
                needs[unit.cls] = []
                for entry in declared_dependencies(unit.cls):
                    unit.dependencies.append(self._resolve(unit.cls, entry, needs[unit.cls]))
        cycle = on_cycles(list(needs), needs)
        if cycle:
            names = ", ".join(sorted(cls.__name__ for cls in cycle))
            raise StartError(f"Module dependency cycle among: {names}")

    def _resolve(self, cls: type, entry: Any, needs: List[type]) -> str:
        """The server's name for a declared dependency."""
        found: Optional[str] = None
        if inspect.isclass(entry):
            reason, shown = "load its package with a --server-module of its own", entry.__name__
            found = self._class_name(entry, needs)
        elif isinstance(entry, str):
            reason, shown = "check the module_name spelling", repr(entry)
            found = self._spelled_name(entry, needs)
        else:
            raise StartError(f"{cls.__name__} has an invalid dependency: {entry!r}")
        if found is None:
            raise StartError(
                f"{cls.__name__} depends on {shown}, which is not a discoverable module ({reason})."
            )
        return found

    def _class_name(self, wanted: type, needs: List[type]) -> Optional[str]:
        if wanted in _builtins.CLASSES:
            return wanted.__name__
        for unit in self.units:
            if isinstance(unit, _units.ClassUnit) and unit.cls is wanted:
                needs.append(wanted)
                return unit.name
        return None

    def _spelled_name(self, wanted: str, needs: List[type]) -> Optional[str]:
        for by in (name_of, lambda cls: cls.__name__):
            for unit in self.units:
                if isinstance(unit, _units.ClassUnit) and by(unit.cls) == wanted:
                    needs.append(unit.cls)
                    return unit.name
        if wanted in self.native_names:
            return wanted
        builtin = _builtins.named(wanted)
        return None if builtin is None else builtin.__name__


def declared_dependencies(cls: type) -> List[Any]:
    """What a class declares, and the module of the server that it is a subclass of."""
    declared = list(dependencies_of(cls))
    for base in cls.__mro__[1:]:
        if base in _builtins.CLASSES and base not in declared:
            declared.append(base)
    return declared


def load(builtin_names: Sequence[str], native_names: Sequence[str]) -> List[Dict[str, Any]]:
    loader = Loader(builtin_names, native_names)
    loader.run(read_specs(host().server_modules_json()))
    _units.begin(loader.units)
    return [_units.description_of(unit) for unit in loader.units]
