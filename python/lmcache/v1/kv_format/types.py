"""How an engine's KV tensors are laid out."""

from __future__ import annotations

from typing import TypedDict, Union

__all__ = ["LayoutHints"]


class LayoutHints(TypedDict, total=False):
    """Any subset; a benchmark tool sends ``"mixed"`` in place of numbers."""

    kv_layout: str
    num_kv_heads: Union[int, str]
    tokens_per_block: Union[int, str]
    head_dim: Union[int, str]
