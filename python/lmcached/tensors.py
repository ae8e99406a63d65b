"""Tensors as bytes: the pickles that byte copy sends, without torch (zmq-wire 11).

Nothing here executes what it reads. The reader knows the few opcodes and the few globals that
pickled CPU tensors are made of and refuses everything else; depth, memo and sizes are bounded.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from . import checks
from .errors import ProtocolError

Buffer = Union[bytes, bytearray, memoryview]

# dtype name -> bytes per element
ITEM_SIZES: Dict[str, int] = {
    "uint8": 1, "int8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "float16": 2, "half": 2, "bfloat16": 2, "int16": 2,
    "float32": 4, "float": 4, "int32": 4,
    "float64": 8, "double": 8, "int64": 8,
}  # fmt: skip

_STORAGES = {
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "BoolStorage": "bool",
}
_STORAGE_OF = {dtype: name for name, dtype in _STORAGES.items()}
_ALIASES = {"half": "float16", "float": "float32", "double": "float64"}
_UNTYPED = "UntypedStorage"  # counts bytes; for dtypes without a storage class of their own

_MAGIC = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
_VERSION = bytes.fromhex("80024de9032e")

_DEPTH_MAX = 64
_STACK_MAX = 1 << 16
_MEMO_MAX = 1 << 16


def canonical_dtype(dtype: str) -> str:
    """``torch.half`` -> ``float16``; raises ValueError for what this package does not know."""
    checks.text("dtype", dtype)
    name = dtype[6:] if dtype.startswith("torch.") else dtype
    if name not in ITEM_SIZES:
        raise ValueError(f"unknown dtype {dtype!r}")
    return _ALIASES.get(name, name)


def row_major_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    strides, step = [], 1
    for dim in reversed(shape):
        strides.append(step)
        step *= max(dim, 1)
    return tuple(reversed(strides))


def _count(shape: Sequence[int]) -> int:
    total = 1
    for dim in shape:
        total *= dim
    return total


@dataclass(frozen=True)
class Tensor:
    """A tensor as a view into its storage; strides and offset count elements."""

    dtype: str
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    offset: int
    storage: memoryview

    @property
    def is_contiguous(self) -> bool:
        expected = row_major_strides(self.shape)
        return all(dim <= 1 or have == want for dim, have, want in zip(self.shape, self.strides, expected))

    def tobytes(self) -> bytes:
        """The elements in row-major order."""
        item = ITEM_SIZES[self.dtype]
        if self.is_contiguous:
            start = self.offset * item
            return bytes(self.storage[start : start + _count(self.shape) * item])
        rows: List[bytes] = []
        self._collect(0, self.offset, item, rows)
        return b"".join(rows)

    def _collect(self, axis: int, at: int, item: int, rows: List[bytes]) -> None:
        if axis == len(self.shape):
            rows.append(bytes(self.storage[at * item : (at + 1) * item]))
            return
        for index in range(self.shape[axis]):
            self._collect(axis + 1, at + index * self.strides[axis], item, rows)


# ---- writing ----


def _unicode(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _integer(value: int) -> bytes:
    if 0 <= value < 1 << 8:
        return b"K" + bytes([value])
    if 0 <= value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _tuple(items: Iterable[int]) -> bytes:
    return b"(" + b"".join(_integer(item) for item in items) + b"t"


_SYSTEM = (
    b"\x80\x02}("
    + _unicode("protocol_version") + _integer(1001)
    + _unicode("little_endian") + b"\x88"
    + _unicode("type_sizes") + b"}("
    + _unicode("short") + _integer(2) + _unicode("int") + _integer(4) + _unicode("long") + _integer(4)
    + b"uu."
)  # fmt: skip


def _stream(data: Buffer, storage: str, count: int) -> List[Buffer]:
    """The legacy storage stream, the raw bytes as a piece of their own."""
    persistent_id = (
        b"\x80\x02(" + _unicode("storage") + _global("torch", storage) + _unicode("0") + _unicode("cpu")
        + _integer(count) + b"NtQ."
    )  # fmt: skip
    keys = b"\x80\x02](" + _unicode("0") + b"e."
    return [_MAGIC + _VERSION + _SYSTEM + persistent_id + keys + struct.pack("<q", count), data]


def _tensor(data: Buffer, dtype: str, shape: Sequence[int]) -> List[Buffer]:
    item = ITEM_SIZES[dtype]
    count = _count(shape)
    if len(data) != count * item:
        raise ValueError(f"a {dtype} tensor of shape {tuple(shape)} has {count * item} bytes, not {len(data)}")
    storage = _STORAGE_OF.get(dtype)
    pieces = _stream(data, storage or _UNTYPED, count if storage else len(data))
    size = len(pieces[0]) + len(pieces[1])
    opener = b"B" + struct.pack("<I", size) if size < 1 << 32 else b"\x8e" + struct.pack("<Q", size)
    rebuild = "_rebuild_tensor_v2" if storage else "_rebuild_tensor_v3"
    head = _global("torch._utils", rebuild) + b"(" + _global("torch.storage", "_load_from_bytes") + opener
    tail = b"\x85R" + _integer(0) + _tuple(shape) + _tuple(row_major_strides(shape)) + b"\x89"
    tail += _global("collections", "OrderedDict") + b")R"
    if not storage:
        tail += _global("torch", dtype)
    return [head, *pieces, tail + b"tR"]


@dataclass(frozen=True)
class Pieces:
    """One long byte string that has not been put together yet."""

    pieces: Sequence[Buffer]

    @property
    def size(self) -> int:
        return sum(len(piece) for piece in self.pieces)


def write_tensors(chunks: Iterable[Buffer], dtype: str, shape: Sequence[int]) -> bytes:
    """Pickles a list of equal CPU tensors given as row-major bytes; torch can load the result."""
    return b"".join(tensor_pieces(chunks, dtype, shape).pieces)


def tensor_pieces(chunks: Iterable[Buffer], dtype: str, shape: Sequence[int]) -> Pieces:
    """As :func:`write_tensors`, with the chunks' bytes borrowed instead of copied."""
    dtype = canonical_dtype(dtype)
    pieces: List[Buffer] = [b"\x80\x03]("]
    for chunk in chunks:
        view = memoryview(chunk).cast("B") if not isinstance(chunk, (bytes, bytearray)) else chunk
        pieces.extend(_tensor(view, dtype, shape))
    pieces.append(b"e.")
    return Pieces(pieces)


# ---- reading ----


@dataclass(frozen=True)
class _Global:
    module: str
    name: str


class _Mark:
    pass


@dataclass
class _Object:
    """What REDUCE and NEWOBJ make of globals that are not interpreted further."""

    cls: _Global
    state: Any = None


@dataclass(frozen=True)
class _Storage:
    dtype: Optional[str]  # None: untyped
    data: memoryview


class _Reader:
    """Interprets one pickle; ``position`` is behind its STOP afterwards."""

    def __init__(self, data: memoryview, position: int = 0, depth: int = 0) -> None:
        if depth > 2:
            raise ProtocolError("pickles nested too deep")
        self.data = data
        self.position = position
        self.depth = depth
        self.stack: List[Any] = []
        self.memo: Dict[int, Any] = {}
        self.persistent: List[Any] = []

    # -- bytes --

    def take(self, size: int) -> memoryview:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise ProtocolError("pickle ends too early")
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def number(self, code: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def text(self, size: int) -> str:
        if size > 1 << 20:
            raise ProtocolError("pickle holds an overlong text")
        try:
            return bytes(self.take(size)).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ProtocolError("pickle holds a text that is not UTF-8") from None

    def line(self) -> str:
        for end in range(self.position, min(len(self.data), self.position + 256)):
            if self.data[end] == 0x0A:
                text = bytes(self.take(end - self.position)).decode("latin-1")
                self.take(1)
                return text
        raise ProtocolError("pickle holds an overlong name")

    # -- stack --

    def push(self, value: Any) -> None:
        if len(self.stack) >= _STACK_MAX:
            raise ProtocolError("pickle needs too much stack")
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _Mark:
            raise ProtocolError("pickle underflows its stack")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise ProtocolError("pickle applies an opcode to the wrong kind of value")
        return self.stack[-1]

    def pop_mark(self) -> List[Any]:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _Mark:
                items = self.stack[at + 1 :]
                del self.stack[at:]
                return items
        raise ProtocolError("pickle has no mark to go back to")

    def remember(self, index: int) -> None:
        if len(self.memo) >= _MEMO_MAX:
            raise ProtocolError("pickle needs too much memo")
        if not self.stack:
            raise ProtocolError("pickle remembers nothing")
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        if index not in self.memo:
            raise ProtocolError("pickle recalls what it did not remember")
        self.push(self.memo[index])

    # -- opcodes --

    def read(self) -> Any:
        while True:
            opcode = self.take(1)[0]
            if opcode == 0x2E:  # STOP
                return self.pop()
            handler = _OPCODES.get(opcode)
            if handler is None:
                raise ProtocolError(f"pickle opcode 0x{opcode:02x} is not allowed")
            handler(self)

    def append(self, items: List[Any]) -> None:
        self.top(list).extend(items)

    def set_items(self, items: List[Any]) -> None:
        target = self.top(dict)
        if len(items) % 2:
            raise ProtocolError("pickle sets a key without a value")
        for key, value in zip(items[::2], items[1::2]):
            if not isinstance(key, (str, int)):
                raise ProtocolError("pickle uses an odd key")
            target[key] = value

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ProtocolError("pickle names a global by something that is not text")
        self.push(_Global(module, name))

    def reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, _Global) or not isinstance(arguments, tuple):
            raise ProtocolError("pickle calls something that is not a global")
        self.push(self.apply(function, arguments))

    def apply(self, function: _Global, arguments: Tuple[Any, ...]) -> Any:
        name = f"{function.module}.{function.name}"
        if name == "collections.OrderedDict" and not arguments:
            return {}
        if name == "torch.Size" and len(arguments) == 1 and isinstance(arguments[0], (tuple, list)):
            return tuple(arguments[0])
        if name == "torch.storage._load_from_bytes" and len(arguments) == 1:
            return _read_storage(arguments[0], self.depth)
        if name in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3"):
            return _rebuild(arguments, function.name.endswith("v3"))
        raise ProtocolError(f"pickle calls {name}, which is not allowed")

    def new_object(self) -> None:
        arguments, cls = self.pop(), self.pop()
        if not isinstance(cls, _Global) or arguments != ():
            raise ProtocolError("pickle makes an object of something that is not a class")
        self.push(_Object(cls))

    def build(self) -> None:
        state = self.pop()
        self.top(_Object).state = state

    def persistent_id(self) -> None:
        value = self.pop()
        self.persistent.append(value)
        self.push(value)


def _long1(reader: _Reader) -> int:
    return int.from_bytes(reader.take(reader.take(1)[0]), "little", signed=True)


_OPCODES = {
    0x80: lambda r: r.take(1),
    0x95: lambda r: r.take(8),
    0x28: lambda r: r.push(_Mark),
    0x4E: lambda r: r.push(None),
    0x88: lambda r: r.push(True),
    0x89: lambda r: r.push(False),
    0x4B: lambda r: r.push(r.take(1)[0]),
    0x4D: lambda r: r.push(r.number("<H")),
    0x4A: lambda r: r.push(r.number("<i")),
    0x8A: lambda r: r.push(_long1(r)),
    0x47: lambda r: r.push(r.number(">d")),
    0x8C: lambda r: r.push(r.text(r.number("<B"))),
    0x58: lambda r: r.push(r.text(r.number("<I"))),
    0x8D: lambda r: r.push(r.text(r.number("<Q"))),
    0x43: lambda r: r.push(r.take(r.number("<B"))),
    0x42: lambda r: r.push(r.take(r.number("<I"))),
    0x8E: lambda r: r.push(r.take(r.number("<Q"))),
    0x96: lambda r: r.push(r.take(r.number("<Q"))),
    0x5D: lambda r: r.push([]),
    0x61: lambda r: r.append([r.pop()]),
    0x65: lambda r: r.append(r.pop_mark()),
    0x29: lambda r: r.push(()),
    0x85: lambda r: r.push((r.pop(),)),
    0x86: lambda r: r.push((r.pop(), r.pop())[::-1]),
    0x87: lambda r: r.push((r.pop(), r.pop(), r.pop())[::-1]),
    0x74: lambda r: r.push(tuple(r.pop_mark())),
    0x7D: lambda r: r.push({}),
    0x73: lambda r: r.set_items([r.pop(), r.pop()][::-1]),
    0x75: lambda r: r.set_items(r.pop_mark()),
    0x63: lambda r: r.push(_Global(r.line(), r.line())),
    0x93: lambda r: r.stack_global(),
    0x52: lambda r: r.reduce(),
    0x81: lambda r: r.new_object(),
    0x62: lambda r: r.build(),
    0x94: lambda r: r.remember(len(r.memo)),
    0x71: lambda r: r.remember(r.take(1)[0]),
    0x72: lambda r: r.remember(r.number("<I")),
    0x68: lambda r: r.recall(r.take(1)[0]),
    0x6A: lambda r: r.recall(r.number("<I")),
    0x51: lambda r: r.persistent_id(),
}


def _read_storage(stream: Any, depth: int) -> _Storage:
    if not isinstance(stream, memoryview):
        raise ProtocolError("a storage is not made of bytes")
    head = _MAGIC + _VERSION
    if bytes(stream[: len(head)]) != head:
        raise ProtocolError("a storage stream does not begin as it must")
    position = len(head)
    parts: List[Any] = []
    for _ in range(3):  # system information, storage, keys
        reader = _Reader(stream, position, depth + 1)
        parts.append(reader.read())
        position = reader.position
    system, storage, _keys = parts
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise ProtocolError("a storage stream is not little-endian")
    if not isinstance(storage, tuple) or len(storage) != 6 or storage[0] != "storage":
        raise ProtocolError("a storage stream names no storage")
    cls, place, count = storage[1], storage[3], storage[4]
    known = isinstance(cls, _Global) and cls.module == "torch" and (cls.name in _STORAGES or cls.name == _UNTYPED)
    if not known or place != "cpu" or not isinstance(count, int) or count < 0:
        raise ProtocolError("a storage is of no kind that is known here")
    dtype = _STORAGES.get(cls.name)
    size = count * (ITEM_SIZES[dtype] if dtype else 1)
    if len(stream) - position < 8 + size or struct.unpack("<q", stream[position : position + 8])[0] != count:
        raise ProtocolError("a storage is shorter than it says")
    return _Storage(dtype, stream[position + 8 : position + 8 + size])


def _integers(value: Any) -> Tuple[int, ...]:
    if isinstance(value, (tuple, list)) and all(type(item) is int and item >= 0 for item in value):
        if len(value) <= 16:
            return tuple(value)
    raise ProtocolError("a tensor's shape or strides are not a few integers")


def _rebuild(arguments: Tuple[Any, ...], typed_at_end: bool) -> Tensor:
    if len(arguments) < (7 if typed_at_end else 6) or not isinstance(arguments[0], _Storage):
        raise ProtocolError("a tensor is rebuilt from the wrong parts")
    storage, offset = arguments[0], arguments[1]
    shape, strides = _integers(arguments[2]), _integers(arguments[3])
    dtype = storage.dtype
    if typed_at_end:
        named = arguments[6]
        if not isinstance(named, _Global) or named.module != "torch" or named.name not in ITEM_SIZES:
            raise ProtocolError("a tensor has no dtype that is known here")
        dtype = canonical_dtype(named.name)
    if dtype is None or type(offset) is not int or offset < 0 or len(shape) != len(strides):
        raise ProtocolError("a tensor is rebuilt from the wrong parts")
    if _count(shape) * ITEM_SIZES[dtype] > len(storage.data):
        raise ProtocolError("a tensor repeats its storage")
    last = offset + sum((dim - 1) * stride for dim, stride in zip(shape, strides))
    if _count(shape) > 0 and (last + 1) * ITEM_SIZES[dtype] > len(storage.data):
        raise ProtocolError("a tensor reaches beyond its storage")
    return Tensor(dtype, shape, strides, offset, storage.data)


def read_pickle(data: Buffer) -> Any:
    """Reads one pickle of the subset; byte strings come out as views into ``data``."""
    reader = _Reader(memoryview(data).cast("B"))
    value = reader.read()
    if reader.position != len(reader.data):
        raise ProtocolError("bytes after the end of a pickle")
    return value


def read_tensors(data: Buffer) -> List[Tensor]:
    """Reads a pickled list of CPU tensors, as servers of either kind send it."""
    value = read_pickle(data)
    if not isinstance(value, list) or not all(isinstance(item, Tensor) for item in value):
        raise ProtocolError("expected a pickled list of tensors")
    return value


# ---- tensors that stay where they are ----


@dataclass(frozen=True)
class CpuShmTensor:
    """One of the engine's own KV tensors in POSIX shared memory (zmq-wire 10.1)."""

    shm_name: str
    dtype: str
    shape: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]] = None
    storage_offset: int = 0
    nbytes: Optional[int] = None

    def to_wire(self) -> bytes:
        """The pickle of the wrapper object that servers expect."""
        dtype = canonical_dtype(self.dtype)
        shape = checks.integers("shape", self.shape, 0)
        strides = row_major_strides(shape) if self.strides is None else checks.integers("strides", self.strides, 0)
        given = checks.optional_integer("nbytes", self.nbytes, 0)
        nbytes = _count(shape) * ITEM_SIZES[dtype] if given is None else given
        offset = checks.integer("storage_offset", self.storage_offset, 0)
        state = (
            _unicode("shm_name") + _unicode(checks.text("shm_name", self.shm_name))
            + _unicode("nbytes") + _integer(nbytes)
            + _unicode("dtype") + _global("torch", dtype)
            + _unicode("shape") + _tuple(shape)
            + _unicode("stride") + _tuple(strides)
            + _unicode("storage_offset") + _integer(offset)
            + _unicode("handle") + b"N"
            + _unicode("device_uuid") + _unicode("cpu")
        )  # fmt: skip
        cls = _global("lmcache.v1.platform.cpu.shm", "CpuShmTensorWrapper")
        return b"\x80\x03" + cls + b")\x81}(" + state + b"ub."


__all__ = ["CpuShmTensor", "Tensor", "canonical_dtype", "read_pickle", "read_tensors", "write_tensors"]
