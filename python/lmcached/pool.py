"""The server's shared-memory pool, mapped."""

from __future__ import annotations

import mmap
import os

from .errors import ProtocolError
from .messages import Slot
from .tensors import Buffer


class SharedPool:
    """Maps the whole pool read-write. The server owns it; nothing here ever unlinks it.

    ``multiprocessing.shared_memory`` is not used, because its resource tracker would unlink the
    pool when this process ends.
    """

    def __init__(self, name: str, size: int) -> None:
        """Raises OSError when the pool is not there or not ours to open (another user, another
        container), ValueError when it is smaller than announced."""
        plain = name.lstrip("/")
        if not plain or "/" in plain:
            raise ValueError(f"not a pool name: {name!r}")
        descriptor = os.open(f"/dev/shm/{plain}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            status = os.fstat(descriptor)
            self._identity = (status.st_dev, status.st_ino)
            self.size = status.st_size
            if self.size < size or self.size == 0:
                raise ValueError(f"pool {plain} has {self.size} bytes, not {size}")
            self._map = mmap.mmap(descriptor, self.size)
        finally:
            os.close(descriptor)
        self.name = plain

    def is_still(self, name: str, size: int) -> bool:
        """Whether a server that announces this pool means the mapped one, and not a successor of the
        same name, which a restart makes."""
        if name.lstrip("/") != self.name or size > self.size:
            return False
        try:
            status = os.stat(f"/dev/shm/{self.name}", follow_symlinks=False)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def _check(self, slot: Slot) -> None:
        if slot.offset < 0 or slot.length < 0 or slot.offset + slot.length > self.size:
            raise ProtocolError(f"slot at {slot.offset} + {slot.length} is outside the pool")

    def read(self, slot: Slot) -> bytes:
        self._check(slot)
        return self._map[slot.offset : slot.offset + slot.length]

    def write(self, slot: Slot, data: Buffer) -> None:
        self._check(slot)
        view = memoryview(data).cast("B")
        if len(view) != slot.length:
            raise ValueError(f"slot takes {slot.length} bytes, not {len(view)}")
        self._map[slot.offset : slot.offset + slot.length] = view

    def close(self) -> None:
        self._map.close()
