"""The requests that are measured, as frames for the load generator.

A frame may hold marks, which the load generator replaces: eight percent signs by digits that
differ per cycle, the token id CYCLE by a number that differs per cycle, the token id CONNECTION
by the index of the connection. All keep the length of the frame.
"""

from __future__ import annotations

import pathlib
import random
import sys
from dataclasses import dataclass, field
from typing import Any, List, Optional, Sequence

import msgpack

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

from lmcached import CacheKey, EngineDrivenContext, write_tensors  # noqa: E402

CHUNK = 256
PROMPT = 32768
VOCABULARY = 128000
CYCLE = int.from_bytes(b"####", "big")
CONNECTION = int.from_bytes(b"@@@@", "big")
REQUEST_ID = "cmpl-bench-%%%%%%%%"

NOOP, PING, LOOKUP, QUERY, FREE, END, CLEAR = 24, 22, 8, 9, 12, 13, 20
REGISTER, PREPARE_STORE, COMMIT_STORE, PREPARE_RETRIEVE, COMMIT_RETRIEVE = 14, 16, 17, 18, 19
REPORT_BLOCKS = 23


@dataclass
class Request:
    """Operation and payload frames, encoded."""

    name: str
    operation: Any
    payload: Sequence[Any] = ()
    raw: Optional[bytes] = None  # a last frame that is encoded already
    frames: List[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.frames = [msgpack.packb(self.operation)] + [msgpack.packb(value) for value in self.payload]
        if self.raw is not None:
            self.frames.append(self.raw)


def noop() -> Request:
    return Request("noop", NOOP)


def ping() -> Request:
    return Request("ping", PING, [None])


def envelope() -> Request:
    """Until there are modules with methods, the answer that no method is known."""
    return Request("envelope", "server_module_call", [{"method": "bench.echo", "payload": b"x" * 64}])


def report_blocks() -> Request:
    record = {"req_id": "cmpl-bench", "new_block_ids": [1, 2], "new_token_ids": [3, 4]}
    return Request("report_block_allocation", REPORT_BLOCKS, [7, "bench", [record]])


def clear() -> Request:
    return Request("clear", CLEAR, [True])


def prompt(length: int, first: int, seed: int = 1) -> List[int]:
    """A prompt whose first token is a mark or a number, so that prompts differ from there on."""
    numbers = random.Random(seed)
    return [first] + [numbers.randrange(VOCABULARY) for _ in range(length - 1)]


def key(tokens: List[int], model: str, start: int = 0, worker: Optional[int] = None) -> Any:
    return CacheKey(model, 1, worker, tokens, start, len(tokens), REQUEST_ID).to_wire()


def with_wide_first(request: Request, first: int) -> Request:
    """The first token id in five bytes whatever its value, as a replaced mark has it."""
    mark = msgpack.packb(CONNECTION)
    for i, frame in enumerate(request.frames):
        request.frames[i] = frame.replace(mark, b"\xce" + first.to_bytes(4, "big"), 1)
    return request


def lookup_cycle(tokens: List[int], model: str) -> List[Request]:
    """What a scheduler sends for one request that is not loaded in the end."""
    whole = key(tokens, model)
    return [
        Request("lookup", LOOKUP, [whole, 1]),
        Request("query", QUERY, [REQUEST_ID]),
        Request("free", FREE, [whole, 1]),
        Request("end", END, [REQUEST_ID]),
    ]


def store(tokens: List[int], model: str, instance: int, start: int = 0, data: bytes = b"") -> List[Request]:
    part = key(tokens, model, start, 0)
    return [
        Request("prepare_store", PREPARE_STORE, [part, instance]),
        Request("commit_store", COMMIT_STORE, [part, instance], msgpack.packb(data)),
    ]


def retrieve(tokens: List[int], model: str, instance: int, start: int = 0) -> List[Request]:
    part = key(tokens, model, start, 0)
    return [
        Request("prepare_retrieve", PREPARE_RETRIEVE, [part, instance]),
        Request("commit_retrieve", COMMIT_RETRIEVE, [part, instance]),
    ]


def registration(model: str, instance: int, chunk_bytes: int) -> Request:
    """One layer of one plane of bytes: a chunk is [1, 256, chunk_bytes / 256]."""
    context = EngineDrivenContext(instance, model, 1, 16, 1, chunk_bytes // CHUNK, "uint8", True)
    return Request("register", REGISTER, [context.to_wire()])


def chunk_pickle(chunk_bytes: int) -> bytes:
    data = random.Random(2).randbytes(1 << 20) * (chunk_bytes >> 20)
    return write_tensors([data], "uint8", (1, CHUNK, chunk_bytes // CHUNK))
