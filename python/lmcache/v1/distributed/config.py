"""The section ``storage_manager`` of the server's configuration as objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from lmcache._installed import names_of

__all__ = [
    "EvictionConfig",
    "L1ManagerConfig",
    "L1MemoryManagerConfig",
    "LookupHashLogConfig",
    "StorageManagerConfig",
]


@dataclass
class L1MemoryManagerConfig:
    size_in_bytes: int = 0
    use_lazy: bool = True
    init_size_in_bytes: int = 0
    align_bytes: int = 4096
    shm_name: str = ""
    use_hugepages: bool = False
    devdax_path: Optional[str] = None
    devdax_size_in_bytes: int = 0


@dataclass
class EvictionConfig:
    eviction_policy: str = "LRU"
    trigger_watermark: float = 0.8
    eviction_ratio: float = 0.2
    extra_logging_enabled: bool = False
    extra_logging_interval: float = 10.0


@dataclass
class L1ManagerConfig:
    memory_config: L1MemoryManagerConfig = field(default_factory=L1MemoryManagerConfig)
    gds_l1_config: Optional[Dict[str, Any]] = None
    write_ttl_seconds: float = 600
    read_ttl_seconds: float = 300
    tag: str = "_default"
    eviction: Optional[EvictionConfig] = None


@dataclass
class LookupHashLogConfig:
    output_dir: str = ""
    rotation_interval_sec: float = 21600
    rotation_max_size: int = 104857600
    max_files: int = 100


@dataclass
class StorageManagerConfig:
    """``l1_manager_config`` repeats the first of ``l1_manager_configs``."""

    l1_manager_config: L1ManagerConfig = field(default_factory=L1ManagerConfig)
    eviction_config: EvictionConfig = field(default_factory=EvictionConfig)
    l2_adapter_config: Dict[str, Any] = field(default_factory=dict)
    store_policy: str = "default"
    prefetch_policy: str = "default"
    prefetch_max_in_flight: int = 8
    prefetch_load_timeout: Optional[float] = None
    periodic_notifier_interval_ms: float = 5
    l1_manager_configs: List[L1ManagerConfig] = field(default_factory=list)
    lookup_hash_log: LookupHashLogConfig = field(default_factory=LookupHashLogConfig)


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
