"""``@message``: turns an annotated class into a msgspec struct where a usable msgspec is importable, else
into a dataclass that is built, compared and printed the same way.

Both are encoded as a map of member names by msgspec. ``frozen`` makes them immutable and hashable.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Type, TypeVar, get_type_hints

T = TypeVar("T")

try:
    import msgspec as _msgspec

    _NEEDED = (_msgspec.defstruct, _msgspec.field)
except (ImportError, AttributeError):  # none, too old a one, or a file of that name
    _msgspec = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from dataclasses import dataclass as message
else:

    def message(cls: Optional[type] = None, *, frozen: bool = False) -> Any:
        """Members without a default come first; mutable defaults are ``dataclasses.field``s."""
        make: Callable[[type], type] = _dataclass if _msgspec is None else _struct
        if cls is not None:
            return make(cls, frozen)
        return lambda decorated: make(decorated, frozen)


def _dataclass(cls: type, frozen: bool) -> type:
    return dataclasses.dataclass(frozen=frozen)(cls)


def _struct(cls: type, frozen: bool) -> type:
    plain: Any = dataclasses.dataclass(cls)  # reads defaults and factories
    hints = get_type_hints(cls)
    members = []
    for member in dataclasses.fields(plain):
        entry: Any = (member.name, hints[member.name])
        if member.default is not dataclasses.MISSING:
            entry += (member.default,)
        elif member.default_factory is not dataclasses.MISSING:
            entry += (_msgspec.field(default_factory=member.default_factory),)
        members.append(entry)
    return _msgspec.defstruct(
        cls.__name__,
        members,
        namespace={"__doc__": cls.__doc__},
        module=cls.__module__,
        frozen=frozen,
    )


def members_of(value: Any) -> Dict[str, Any]:
    """A message's members as a dict, not recursively."""
    names = getattr(type(value), "__struct_fields__", None)
    if names is None:
        names = [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name) for name in names}


def maker(cls: Type[T]) -> Callable[[Dict[str, Any]], T]:
    """Builds a message of a class from a dict that may have members the class does not know."""
    names = getattr(cls, "__struct_fields__", None)
    if names is None:
        names = tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]
    known = frozenset(names)

    def make(members: Dict[str, Any]) -> T:
        if known.issuperset(members):
            return cls(**members)
        return cls(**{name: value for name, value in members.items() if name in known})

    return make
