"""The server's configuration as objects.

Inside the server modules get them from their build context. A runtime plugin reads those of the
server that started it with ``read_runtime_plugin_config()``.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from lmcache._config import filled
from lmcache._installed import names_of
from lmcache.v1.distributed.config import StorageManagerConfig
from lmcache.v1.multiprocess.ext_server_module import ExtServerModuleSpec

__all__ = [
    "CoordinatorConfig",
    "DEFAULT_COORDINATOR_CONFIG",
    "HTTPFrontendConfig",
    "MPServerConfig",
    "P2PConfig",
    "RuntimePluginConfig",
    "ServerConfig",
    "read_runtime_plugin_config",
]


@dataclass
class RuntimePluginConfig:
    locations: List[str] = field(default_factory=list)
    extra_config: Dict[str, Any] = field(default_factory=dict)


@dataclass
class P2PConfig:
    advertise_url: str = ""
    listen_url: str = ""
    lookup_timeout: float = 30.0
    load_timeout: float = 30.0
    transfer_engine: str = "nixl"

    @property
    def enabled(self) -> bool:
        return bool(self.advertise_url)

    @property
    def effective_listen_url(self) -> str:
        return self.listen_url or self.advertise_url


@dataclass
class MPServerConfig:
    """The section ``mp`` of ``GET /config``."""

    host: str = "localhost"
    port: int = 5555
    transport: str = "zmq"
    chunk_size: int = 256
    null_block_id: int = 0
    max_workers: int = 1
    max_gpu_workers: int = 1
    max_cpu_workers: int = 1
    grpc_server_workers: int = 32
    hash_algorithm: str = "blake3"
    engine_type: str = "default"
    separate_object_groups: bool = False
    enable_segmented_prefix: bool = False
    enable_dedup_content: bool = False
    supported_transfer_mode: str = "auto"
    isolated_ipc: bool = False
    runtime_plugin_config: RuntimePluginConfig = field(default_factory=RuntimePluginConfig)
    p2p_config: P2PConfig = field(default_factory=P2PConfig)
    shm_name: str = ""
    script_allowed_imports: List[str] = field(default_factory=list)
    run_script_api_enabled: bool = False
    instance_id: str = ""
    worker_reap_timeout_seconds: float = 120.0
    worker_registration_grace_seconds: float = 3600.0
    enable: List[str] = field(default_factory=list)
    server_modules: List[ExtServerModuleSpec] = field(default_factory=list)
    session_ttl_seconds: float = 600.0


@dataclass
class CoordinatorConfig:
    url: str = ""
    advertise_ip: str = ""
    heartbeat_interval: float = 5.0
    event_reporting: bool = False
    event_flush_interval: float = 1.0
    blend_timeout: float = 1.0
    blend_match_concurrency: int = 8


DEFAULT_COORDINATOR_CONFIG = CoordinatorConfig()


@dataclass
class HTTPFrontendConfig:
    http_host: str = "127.0.0.1"
    http_port: int = 8080
    enable_l1_cache_download: bool = False
    l1_cache_download_max_size_bytes: int = 67108864
    l1_cache_download_max_concurrency: int = 2


@dataclass
class ServerConfig:
    """What a runtime plugin is told of its server. ``obs_config`` is a plain dict;
    ``http_config`` is None for a server without HTTP."""

    mp_config: MPServerConfig = field(default_factory=MPServerConfig)
    storage_manager_config: StorageManagerConfig = field(default_factory=StorageManagerConfig)
    obs_config: Dict[str, Any] = field(default_factory=dict)
    http_config: Optional[HTTPFrontendConfig] = None
    runtime_plugin_extra_config: Dict[str, Any] = field(default_factory=dict)


def read_runtime_plugin_config(environ: Optional[Mapping[str, str]] = None) -> ServerConfig:
    """Reads ``LMCACHE_RUNTIME_PLUGIN_CONFIG``, or the file that
    ``LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE`` names. RuntimeError: the server set neither."""
    environment = os.environ if environ is None else environ
    text = environment.get("LMCACHE_RUNTIME_PLUGIN_CONFIG")
    path = environment.get("LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE")
    if not text and path:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    if not text:
        raise RuntimeError(
            "LMCACHE_RUNTIME_PLUGIN_CONFIG is not set: run this as a runtime plugin of a server"
        )
    sections = json.loads(text)
    if "http_frontend_config" in sections:  # older writers
        sections.setdefault("http_config", sections["http_frontend_config"])
    return filled(ServerConfig, sections)


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
