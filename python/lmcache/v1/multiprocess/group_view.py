"""KV groups of a registered engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, List, Optional

from lmcache._installed import names_of

__all__ = ["EngineGroupInfo"]


@dataclass
class EngineGroupInfo:
    """One KV group: which of the registered tensors it has and how blocks address them."""

    engine_group_id: int
    layer_indices: List[int] = field(default_factory=list)
    tokens_per_block: int = 0
    sw_size_tokens: int = -1  # sliding window; -1: full attention
    extra_object_group_tag: int = 0
    recurrent_state: bool = False
    model_depths: Optional[List[int]] = None


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
