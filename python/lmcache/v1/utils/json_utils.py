"""Values as JSON can hold them."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Mapping

from lmcache._installed import names_of

__all__ = ["make_json_safe", "safe_asdict"]


def make_json_safe(value: Any) -> Any:
    """Tuples and sets become lists, keys text, messages objects, NaN and infinity null; anything
    else that JSON has no form for becomes its text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): make_json_safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [make_json_safe(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return safe_asdict(value)
    return str(value)


def safe_asdict(value: Any) -> Any:
    """A dataclass instance as a JSON-safe dict."""
    return {
        field.name: make_json_safe(getattr(value, field.name))
        for field in dataclasses.fields(value)
    }


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
