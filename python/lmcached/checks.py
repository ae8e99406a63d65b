"""Judges arguments where they are given.

The wire has no error reply: a value of the wrong type would cost the caller the whole deadline, and
one that is out of range a refusal without a text. So everything typed is checked before it is sent:
TypeError for the wrong type, ValueError for a value that no server takes.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Iterable, List, Mapping, Optional

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
TOKEN_MAX = (1 << 32) - 1
SALT_MAX = 128


def _wrong(name: str, wanted: str, value: Any) -> TypeError:
    return TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


def integer(name: str, value: Any, low: int = INT64_MIN, high: int = INT64_MAX) -> int:
    """Anything that is an integer by itself (numpy's too), but no bool."""
    if isinstance(value, bool):
        raise _wrong(name, "an integer", value)
    try:
        number = operator.index(value)
    except TypeError:
        raise _wrong(name, "an integer", value) from None
    if not low <= number <= high:
        raise ValueError(f"{name} must be in [{low}, {high}], not {number}")
    return number


def optional_integer(name: str, value: Any, low: int = INT64_MIN, high: int = INT64_MAX) -> Optional[int]:
    return None if value is None else integer(name, value, low, high)


def boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, "a bool", value)
    return value


def seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(name, "a number of seconds", value)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be finite and not negative, not {value}")
    return float(value)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, "a str", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} cannot be written as UTF-8") from None
    return value


def data(name: str, value: Any) -> Any:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _wrong(name, "bytes", value)
    return value


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(name, "a mapping", value)
    for key in value:
        text(f"a key of {name}", key)
    return value


def members(name: str, value: Any, kind: type) -> List[Any]:
    """A sequence of objects of one class."""
    items = sequence(name, value)
    for item in items:
        if not isinstance(item, kind):
            raise _wrong(f"an item of {name}", f"a {kind.__name__}", item)
    return items


def sequence(name: str, value: Any) -> List[Any]:
    """Lists, tuples, ranges, arrays; not text, bytes or mappings, which would be taken apart."""
    if isinstance(value, list):
        return value
    unfit = isinstance(value, (str, bytes, bytearray, Mapping))
    if unfit or not isinstance(value, Iterable) or not hasattr(value, "__len__"):
        raise _wrong(name, "a sequence", value)
    return list(value)


def integers(name: str, value: Any, low: int = INT64_MIN, high: int = INT64_MAX) -> List[int]:
    """Whole prompts come this way, so the usual case, a list of plain ints, takes no Python loop."""
    items = sequence(name, value)
    if set(map(type, items)) - {int}:
        return [integer(f"{name}[{at}]", item, low, high) for at, item in enumerate(items)]
    if items and (min(items) < low or max(items) > high):
        for at, item in enumerate(items):
            integer(f"{name}[{at}]", item, low, high)
    return items


def integer_rows(name: str, value: Any) -> List[List[int]]:
    return [integers(f"{name}[{at}]", row) for at, row in enumerate(sequence(name, value))]


def model_name(value: Any) -> str:
    if "@" in text("model_name", value):
        raise ValueError(f"model_name must not hold '@': {value!r}")
    return value


def cache_salt(value: Any) -> str:
    if len(text("cache_salt", value)) > SALT_MAX:
        raise ValueError(f"cache_salt has {len(value)} characters, more than {SALT_MAX}")
    for unfit in "@/\\\0":
        if unfit in value:
            raise ValueError(f"cache_salt must not hold {unfit!r}")
    return value
