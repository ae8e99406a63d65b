"""The restricted pickle reader and the writer."""

import pickle
import random

import pytest

from lmcached import CpuShmTensor, ProtocolError, read_tensors, write_tensors
from lmcached.tensors import ITEM_SIZES, canonical_dtype, read_pickle

DTYPES = sorted(ITEM_SIZES)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_written_is_read_back(dtype):
    shape = (2, 3, 5)
    size = 30 * ITEM_SIZES[dtype]
    chunks = [random.Random(i).randbytes(size) for i in range(3)]
    tensors = read_tensors(write_tensors(chunks, dtype, shape))
    assert [t.tobytes() for t in tensors] == chunks
    assert {t.dtype for t in tensors} == {canonical_dtype(dtype)}


def test_bytearrays_and_views_are_chunks_too():
    data = bytearray(range(64))
    tensors = read_tensors(write_tensors([data, memoryview(data)], "uint8", (64,)))
    assert [t.tobytes() for t in tensors] == [bytes(data)] * 2


def test_a_chunk_of_another_size_is_refused():
    with pytest.raises(ValueError, match="has 8 bytes, not 7"):
        write_tensors([b"x" * 7], "float16", (4,))


def test_an_unknown_dtype_is_refused():
    with pytest.raises(ValueError, match="unknown dtype 'complex64'"):
        write_tensors([], "complex64", (1,))


def test_the_integer_forms_of_the_template():
    from lmcached.tensors import _integer

    for value in (0, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**40, 2**63):
        assert pickle.loads(b"\x80\x03" + _integer(value) + b".") == value


class Evil:
    def __reduce__(self):
        import os

        return os.system, ("touch /tmp/should-never-exist",)


@pytest.mark.parametrize(
    "value",
    [Evil(), [Evil()], object(), {"a": Evil()}, pytest, 1 + 2j, {1, 2}],
    ids=["call", "list", "object", "dict", "module", "complex", "set"],
)
def test_nothing_is_executed(value):
    try:
        data = pickle.dumps(value, protocol=4)
    except TypeError:
        data = b"cos\nsystem\n(X\x04\x00\x00\x00truetR."
    with pytest.raises(ProtocolError):
        read_tensors(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"\x80\x04]",
        b"]]a",
        b"]a.",
        b"(.",
        b"]\x94h\x00a.",  # a list that holds itself: not tensors
        b"B\xff\xff\xff\xff.",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\xffx.",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"h\x05.",
        b"(" * 100000 + b".",
        b"]" * 100000 + b".",
        b"N.",
        b"].x",
        b"X\x02\x00\x00\x00\xff\xfe.",
        b"c" + b"a" * 5000,
        b"K\x01K\x02R.",
        b"K\x01b.",
    ],
)
def test_garbage_is_refused(data):
    with pytest.raises(ProtocolError):
        read_tensors(data)


def test_no_mutation_of_a_good_pickle_raises_anything_else():
    good = write_tensors([bytes(range(32))] * 2, "float16", (2, 8))
    rng = random.Random(7)
    for _ in range(20000):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        if rng.random() < 0.2:
            del bad[rng.randrange(len(bad)) :]
        try:
            for tensor in read_tensors(bytes(bad)):
                tensor.tobytes()
        except ProtocolError:
            pass


def test_strides_are_followed():
    good = write_tensors([bytes(range(6))], "uint8", (2, 3))
    transposed = good.replace(b"(K\x02K\x03t(K\x03K\x01t", b"(K\x03K\x02t(K\x01K\x03t")
    assert transposed != good
    assert read_tensors(transposed)[0].tobytes() == bytes([0, 3, 1, 4, 2, 5])


def test_a_tensor_may_be_part_of_its_storage():
    good = write_tensors([bytes(range(6))], "uint8", (6,))
    part = good.replace(b"K\x00(K\x06t(K\x01t", b"K\x02(K\x03t(K\x01t")
    assert part != good
    assert read_tensors(part)[0].tobytes() == bytes([2, 3, 4])
    beyond = good.replace(b"K\x00(K\x06t(K\x01t", b"K\x04(K\x03t(K\x01t")
    with pytest.raises(ProtocolError, match="beyond its storage"):
        read_tensors(beyond)


def test_a_wrapper_holds_what_the_server_needs():
    wrapper = read_pickle(CpuShmTensor("/lmcache_kv_1_0", "torch.bfloat16", (2, 4, 16, 8)).to_wire())
    assert wrapper.cls.name == "CpuShmTensorWrapper"
    assert wrapper.state["shm_name"] == "/lmcache_kv_1_0"
    assert wrapper.state["nbytes"] == 2 * 4 * 16 * 8 * 2
    assert wrapper.state["shape"] == (2, 4, 16, 8)
    assert wrapper.state["stride"] == (512, 128, 8, 1)
    assert wrapper.state["dtype"].name == "bfloat16"


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65535, 65536, 100000])
def test_pieces_travel_as_one_byte_string(size):
    import msgpack

    from lmcached.client import encode_request
    from lmcached.operations import OPERATIONS
    from lmcached.tensors import Pieces

    whole = random.Random(size).randbytes(size)
    pieces = Pieces([whole[: size // 3], memoryview(whole)[size // 3 :]])
    frames = encode_request(1, OPERATIONS["commit_store"], ({}, 1, pieces))
    assert frames[4] == msgpack.packb(whole)
