"""Light client of the LMCache multiprocess KV-cache server (ZMQ wire).

Needs pyzmq and msgpack, nothing else: neither torch nor numpy. Talks to ``lmcached`` and to the
original Python server alike.

    from lmcached import CacheKey, Client

    with Client("tcp://localhost:5555") as client:
        print(client.get_chunk_size().result(timeout=5))

Every operation is a method of :class:`Client` and returns a :class:`Future`. :class:`Worker` stores
and retrieves KV chunks as bytes, through shared memory when the server offers it, by byte copy
otherwise. :class:`Heartbeat` keeps a registration alive across server restarts.
"""

from .client import Client, Future
from .errors import ClientClosed, LMCacheError, NotRegistered, ProtocolError, RequestTimeout
from .heartbeat import Heartbeat
from .messages import (
    BlockAllocationRecord,
    CacheKey,
    EngineDrivenContext,
    EngineGroup,
    PreparedRetrieve,
    PreparedStore,
    Registration,
    ServerModuleCallRequest,
    ServerModuleCallResponse,
    Slot,
)
from .pool import SharedPool
from .tensors import CpuShmTensor, Tensor, read_tensors, write_tensors
from .worker import Worker

__all__ = [
    "BlockAllocationRecord",
    "CacheKey",
    "Client",
    "ClientClosed",
    "CpuShmTensor",
    "EngineDrivenContext",
    "EngineGroup",
    "Future",
    "Heartbeat",
    "LMCacheError",
    "NotRegistered",
    "PreparedRetrieve",
    "PreparedStore",
    "ProtocolError",
    "Registration",
    "RequestTimeout",
    "ServerModuleCallRequest",
    "ServerModuleCallResponse",
    "SharedPool",
    "Slot",
    "Tensor",
    "Worker",
    "read_tensors",
    "write_tensors",
]

__version__ = "0.1.0"
