"""Damaged requests, made from the golden vectors. The same seed gives the same damage."""

import random

import msgpack
from house import VECTORS

# What a MessagePack value may begin with: every type, and the lengths nobody can have sent.
MARKERS = [
    b"\xc0", b"\xc1", b"\xc2", b"\x00", b"\xff", b"\xa0", b"\x90", b"\x80", b"\xc4\x00",
    b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01", b"\xdc\xff\xff", b"\xde\xff\xff", b"\xcf" + b"\xff" * 8,
    b"\xd3\x80" + b"\x00" * 7, b"\xcb\x7f\xf8" + b"\x00" * 6, b"\xcb\x7f\xf0" + b"\x00" * 6, b"\xd9\xff",
]  # fmt: skip
VALUES = [
    None, True, False, 0, 1, -1, 2**31, -(2**31), 2**32 - 1, 2**32, 2**63 - 1, -(2**63), 2**64 - 1, 0.0, 1e308,
    float("nan"), float("inf"), "", "a", "x" * 300, "\0", "m@x", b"", b"\0" * 40, [], [[]], [0] * 70, {}, {"a": 1},
    {"model_name": 1}, msgpack.ExtType(1, b"\x80\x04N."), msgpack.ExtType(127, b"\0" * 8), [None], ["a", b"b", {}],
]  # fmt: skip
UIDS = [b"", b"\xc0", b"\xff" * 8, b"\xcf" + b"\xff" * 8, b"u" * 255, b"u" * 256, b"u" * 257, b"u" * 5000, b"\x90"]
DEPTHS = [b"\x91", b"\x81\xa0", b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x01"]


def bases(exclude=()):
    return [
        [bytes.fromhex(frame) for frame in vector["frames_hex"]]
        for vector in VECTORS
        if vector["operation"] not in exclude
    ]


class Mutator:
    """An endless source of requests that are nearly right."""

    def __init__(self, seed, frames):
        self._random = random.Random(seed)
        self._bases = frames
        self._kinds = [
            self._flip, self._flip, self._truncate, self._mark, self._mark, self._value, self._member, self._member,
            self._nest, self._insert, self._arity, self._uid, self._splice,
        ]  # fmt: skip

    def __iter__(self):
        return self

    def __next__(self):
        frames = list(self._random.choice(self._bases))
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            self._random.choice(self._kinds)(frames)
        return frames

    def _place(self, frames):
        """A frame, nearly always one behind the uid, so that most damage reaches a decoder."""
        if not frames:
            frames.append(b"")
        low = 0 if self._random.random() < 0.05 or len(frames) == 1 else 1
        low = 2 if low == 1 and len(frames) > 2 and self._random.random() < 0.9 else low
        return self._random.randrange(low, len(frames))

    def _flip(self, frames):
        at = self._place(frames)
        frame = bytearray(frames[at])
        for _ in range(self._random.randrange(1, 9)):
            if frame:
                frame[self._random.randrange(len(frame))] ^= 1 << self._random.randrange(8)
        frames[at] = bytes(frame)

    def _truncate(self, frames):
        at = self._place(frames)
        frames[at] = frames[at][: self._random.randrange(len(frames[at]) + 1)]

    def _insert(self, frames):
        at = self._place(frames)
        where = self._random.randrange(len(frames[at]) + 1)
        frames[at] = frames[at][:where] + self._random.randbytes(self._random.randrange(1, 40)) + frames[at][where:]

    def _mark(self, frames):
        at = self._place(frames)
        where = self._random.randrange(len(frames[at]) + 1)
        marker = self._random.choice(MARKERS)
        frames[at] = frames[at][:where] + marker + frames[at][where + self._random.choice((0, 1, len(marker))) :]

    def _value(self, frames):
        frames[self._place(frames)] = msgpack.packb(self._random.choice(VALUES))

    def _member(self, frames):
        """Well-formed, but one member somewhere inside is something else."""
        at = self._place(frames)
        try:
            value = msgpack.unpackb(frames[at], strict_map_key=False)
        except Exception:
            return self._value(frames)
        frames[at] = msgpack.packb(self._changed(value, 0))

    def _changed(self, value, depth):
        if isinstance(value, dict) and value and self._random.random() < 0.95:
            key = self._random.choice(list(value))
            if self._random.random() < 0.1:
                return {name: item for name, item in value.items() if name != key}
            return {**value, key: self._changed(value[key], depth + 1)}
        if isinstance(value, list) and value and depth < 4 and self._random.random() < 0.7:
            at = self._random.randrange(len(value))
            return [*value[:at], self._changed(value[at], depth + 1), *value[at + 1 :]]
        if isinstance(value, bytes) and value and self._random.random() < 0.8:
            inner = [value]
            self._random.choice((self._flip, self._truncate, self._insert))(inner)
            return inner[0]
        return self._random.choice(VALUES)

    def _nest(self, frames):
        depth = self._random.choice((8, 31, 32, 33, 64, 200, 5000))
        frames[self._place(frames)] = self._random.choice(DEPTHS) * depth + b"\xc0"

    def _arity(self, frames):
        choice = self._random.randrange(4)
        if choice == 0:
            del frames[self._random.randrange(len(frames)) :]
            frames or frames.append(b"")
        elif choice == 1:
            frames.append(self._random.choice(frames))
        elif choice == 2:
            frames.extend([b"\xc0"] * self._random.choice((1, 5, 8, 9, 60)))
        else:
            self._random.shuffle(frames)

    def _uid(self, frames):
        frames[0] = self._random.choice(UIDS)

    def _splice(self, frames):
        """The payload of one operation under the name of another."""
        other = self._random.choice(self._bases)
        frames[2:] = other[2:]
