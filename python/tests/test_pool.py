"""Mapping the shared pool."""

import os
import subprocess
import sys
import uuid

import pytest

from lmcached import ProtocolError, SharedPool, Slot


@pytest.fixture
def segment():
    name = f"lmcache_l1_pool_test_{uuid.uuid4().hex}"
    path = f"/dev/shm/{name}"
    with open(path, "wb") as file:
        file.truncate(8192)
    yield name
    if os.path.exists(path):
        os.unlink(path)


def slot(offset, length):
    return Slot(offset, length, (length,), "uint8")


def test_bytes_go_in_and_come_out(segment):
    pool = SharedPool("/" + segment, 8192)
    pool.write(slot(4096, 4), b"abcd")
    assert pool.read(slot(4094, 8)) == b"\0\0abcd\0\0"
    pool.close()
    with open(f"/dev/shm/{segment}", "rb") as file:
        assert file.read()[4096:4100] == b"abcd"


def test_slots_outside_the_pool_are_refused(segment):
    pool = SharedPool(segment, 8192)
    for bad in (slot(8190, 4), slot(-1, 2), slot(0, -1), slot(1 << 62, 1 << 62)):
        with pytest.raises(ProtocolError):
            pool.read(bad)
        with pytest.raises(ProtocolError):
            pool.write(bad, b"ab")
    with pytest.raises(ValueError, match="takes 4 bytes, not 3"):
        pool.write(slot(0, 4), b"abc")
    pool.close()


def test_a_pool_smaller_than_announced_is_refused(segment):
    with pytest.raises(ValueError, match="has 8192 bytes, not 8193"):
        SharedPool(segment, 8193)


def test_a_pool_that_is_not_there_is_an_os_error():
    with pytest.raises(OSError):
        SharedPool("lmcache_l1_pool_nobody", 1)
    with pytest.raises(ValueError):
        SharedPool("a/../b", 1)


def test_the_end_of_a_process_leaves_the_pool_in_place(segment):
    code = f"from lmcached import SharedPool; SharedPool({segment!r}, 8192)"
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env={**os.environ, "PYTHONPATH": root})
    assert os.path.exists(f"/dev/shm/{segment}")
