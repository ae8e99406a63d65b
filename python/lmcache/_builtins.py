"""The server's own module classes, by name. Importing them is cheap and needs no server."""

from __future__ import annotations

from typing import Dict, List, Optional, Type

from lmcache.v1.multiprocess.modules._builtin import BuiltinModule
from lmcache.v1.multiprocess.modules.blend.module import BlendModule
from lmcache.v1.multiprocess.modules.engine_driven_transfer import EngineDrivenTransferModule
from lmcache.v1.multiprocess.modules.experimental.qstore import QStoreModule
from lmcache.v1.multiprocess.modules.kv_events import KVEventModule
from lmcache.v1.multiprocess.modules.lmcache_driven_transfer import LMCacheDrivenTransferModule
from lmcache.v1.multiprocess.modules.lookup import LookupModule
from lmcache.v1.multiprocess.modules.management import ManagementModule
from lmcache.v1.multiprocess.modules.p2p_controller import P2PController

CLASSES: List[Type[BuiltinModule]] = [
    LookupModule,
    P2PController,
    LMCacheDrivenTransferModule,
    EngineDrivenTransferModule,
    QStoreModule,
    BlendModule,
    KVEventModule,
    ManagementModule,
]

BY_NAME: Dict[str, Type[BuiltinModule]] = {cls.__name__: cls for cls in CLASSES}


def named(name: str) -> Optional[Type[BuiltinModule]]:
    """By class name, or by the name that older generations used, such as "lookup"."""
    return BY_NAME.get(name) or next((cls for cls in CLASSES if cls.stem == name), None)
