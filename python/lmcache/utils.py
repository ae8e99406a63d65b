"""Small shared definitions."""

import enum

__all__ = ["EngineType"]


class EngineType(str, enum.Enum):
    """Which serving engine registers."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value
