"""Small shared definitions."""

import enum
from typing import TYPE_CHECKING

from lmcache._installed import names_of

__all__ = ["EngineType"]


class EngineType(str, enum.Enum):
    """Which serving engine registers."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
