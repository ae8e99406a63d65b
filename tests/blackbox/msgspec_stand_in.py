"""As much of msgspec as the design document's example and the package lmcache use, over msgpack. For
systems without msgspec: what else the example needs must be there all the same."""

SOURCE = '''
import dataclasses
import sys
import types
import typing

import msgpack as _msgpack

__version__ = "stand-in"


class ValidationError(ValueError):
    pass


def field(*, default=dataclasses.MISSING, default_factory=dataclasses.MISSING):
    return dataclasses.field(default=default, default_factory=default_factory)


class _Meta(type):
    def __new__(meta, name, bases, namespace, **options):
        cls = super().__new__(meta, name, bases, namespace)
        if bases:
            cls = dataclasses.dataclass(cls, frozen=options.get("frozen", False))
            cls.__struct_fields__ = tuple(one.name for one in dataclasses.fields(cls))
        return cls

    def __init__(cls, name, bases, namespace, **options):
        super().__init__(name, bases, namespace)


class Struct(metaclass=_Meta):
    pass


def defstruct(name, fields, *, namespace=None, module=None, frozen=False, **_options):
    annotations, body = {}, dict(namespace or {})
    for entry in fields:
        annotations[entry[0]] = entry[1]
        if len(entry) > 2:
            body[entry[0]] = entry[2]
    body["__annotations__"] = annotations
    if module is not None:
        body["__module__"] = module
    return _Meta(name, (Struct,), body, frozen=frozen)


def _plain(value):
    if hasattr(value, "__struct_fields__"):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} cannot be encoded")


msgpack = types.ModuleType("msgspec.msgpack")
sys.modules["msgspec.msgpack"] = msgpack


def _encode(value):
    return _msgpack.packb(value, default=_plain)


def _decode(data, *, type=typing.Any):
    value = _msgpack.unpackb(data)
    if type is typing.Any:
        return value
    hints = typing.get_type_hints(type)
    for name in type.__struct_fields__:
        if name not in value:
            raise ValidationError(f"Object missing required field `{name}`")
        if not isinstance(value[name], hints[name]):
            raise ValidationError(f"Expected `{hints[name].__name__}` - at `$.{name}`")
    return type(**{name: value[name] for name in type.__struct_fields__})


msgpack.encode, msgpack.decode = _encode, _decode
'''
