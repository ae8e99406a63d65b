"""Dataclasses filled from the server's configuration JSON."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, Mapping, Optional, Type, TypeVar, Union

T = TypeVar("T")


def filled(cls: Type[T], section: Optional[Mapping[str, Any]]) -> T:
    """An instance of a dataclass with the members that a JSON object has. Members the class does
    not know are left out; missing ones take their default."""
    hints = typing.get_type_hints(cls)
    known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return cls(
        **{
            name: _value(hints[name], value)
            for name, value in (section or {}).items()
            if name in known
        }
    )


def _value(kind: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Union:
        inner = [argument for argument in arguments if argument is not type(None)]
        return _value(inner[0], value) if value is not None and len(inner) == 1 else value
    if origin is list and isinstance(value, list):
        return [_value(arguments[0], item) for item in value]
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        from_dict = getattr(kind, "from_dict", None)
        return from_dict(value) if from_dict is not None else filled(kind, value)  # type: ignore
    return value
