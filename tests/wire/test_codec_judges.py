"""Python's msgpack, protobuf and pickle judge the codecs.

The probe (src/rpc/probe) turns one wire's bytes into the other's. What it writes is read here by
implementations that know nothing of ours, and compared with what went in. LMC_CODEC_PROBE names
the program; protoc makes the messages from tests/protos.
"""

import importlib
import io
import json
import os
import pathlib
import pickle
import random
import re
import struct
import subprocess
import sys
import warnings

import msgpack
import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = TESTS / "golden"

# Operations whose method is not their name in camel case.
METHODS = {"p2p_lookup_and_lock": "P2pLookupAndLock", "p2p_unlock_objects": "P2pUnlockObjects",
           "p2p_query_lookup_results": "P2pQueryLookupResults"}
# Messages that are another operation's.
SHARED = {"register_q_cache": "register_kv_cache", "unregister_q_cache": "unregister_kv_cache",
          "store_q": "store"}
# Requests that are one map, not one frame per member.
ONE_MAP = {"register_kv_cache_engine_driven_context", "server_module_call"}
# Members that gRPC does not carry.
ZMQ_ONLY = {"null_chunk_mask", "engine_group_infos", "group_hidden_dim_sizes",
            "group_layout_descs", "enable_l1_kvweave_quant", "kernel_groups", "scratch_offset",
            "scratch_size"}
KEY_DEFAULTS = {"cache_salt": "", "request_configs": None, "num_kv_readers": 0}


class Probe:
    def __init__(self):
        program = os.environ.get("LMC_CODEC_PROBE", str(TESTS.parent / "build/tests/lmc-codec-probe"))
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ask(self, command, name, *blobs):
        words = [blob if isinstance(blob, str) else blob.hex() or "-" for blob in blobs]
        self.process.stdin.write(" ".join([command, name, *words]) + "\n")
        self.process.stdin.flush()
        status, *results = self.process.stdout.readline().split()
        if status != "ok":
            return status
        return [b"" if word == "-" else bytes.fromhex(word) for word in results]

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=10) == 0


@pytest.fixture(scope="module")
def probe():
    probe = Probe()
    yield probe
    probe.close()


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    """Name of a message to its class, made by protoc."""
    out = tmp_path_factory.mktemp("protos")
    protos = sorted(path.name for path in (TESTS / "protos").glob("*.proto"))
    subprocess.run(["protoc", f"-I{TESTS / 'protos'}", f"--python_out={out}", *protos], check=True)
    sys.path.insert(0, str(out))
    table = {}
    for name in protos:
        module = importlib.import_module(name.replace(".proto", "_pb2"))
        for message in module.DESCRIPTOR.message_types_by_name:
            table[message] = getattr(module, message)
    yield table
    sys.path.remove(str(out))


def message_name(operation, suffix):
    if operation == "store_with_chunk_events":
        return "StoreRequest" if suffix == "Request" else "ChunkStoreResponse"
    operation = SHARED.get(operation, operation)
    camel = METHODS.get(operation, "".join(word.capitalize() for word in operation.split("_")))
    return camel + suffix


def unpack(data):
    return msgpack.unpackb(data, strict_map_key=False)


def from_pb(message):
    """A protobuf message as the values that ZMQ carries for it."""
    name = message.DESCRIPTOR.name
    if name in ("BlockIdGroup", "RopeWindow", "TensorShape", "TransferChannelAddressList"):
        return [plain(item) for item in getattr(message, message.DESCRIPTOR.fields[0].name)]
    if name == "DeviceIpcWrapper":
        return msgpack.ExtType(1, message.pickled_payload)
    if name == "EventIpcHandleResult":
        return [message.event_ipc_handle, message.success]
    return {member.removeprefix("encoded_"): value for member, value in members(message)}


def plain(value):
    return from_pb(value) if hasattr(value, "DESCRIPTOR") else value


def members(message):
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            yield field.name, {key: from_pb(item) for key, item in value.items()}
        elif field.label == field.LABEL_REPEATED:
            yield field.name, [plain(item) for item in value]
        elif field.has_presence and not message.HasField(field.name):
            yield field.name, None
        elif field.name.startswith("encoded_"):
            yield field.name, unpack(value) if value else {}
        else:
            yield field.name, plain(value)


def matches(grpc, zmq):
    """Whether two values are the same, as far as both wires carry them."""
    if grpc is None and isinstance(zmq, dict):
        return not any(zmq.values())  # an absent message is one of defaults
    if isinstance(grpc, dict) and isinstance(zmq, dict):
        zmq = {key: value for key, value in zmq.items() if key not in ZMQ_ONLY}
        if "token_ids" in zmq and "request_id" in zmq:
            zmq = {**KEY_DEFAULTS, **zmq}
        keys = set(grpc) | set(zmq)
        return all(matches(grpc.get(key), zmq.get(key)) for key in keys)
    if isinstance(grpc, list) and isinstance(zmq, (list, tuple)):
        return len(grpc) == len(zmq) and all(map(matches, grpc, zmq))
    if isinstance(grpc, str) and isinstance(zmq, int):
        return grpc == str(zmq)
    return grpc == zmq or (not grpc and not zmq)


def request_values(operation, frames):
    values = [unpack(frame) for frame in frames]
    return values[0] if operation in ONE_MAP else values


def check_request_as_pb(probe, messages, operation, frames):
    written = probe.ask("zmq-pb", operation, *frames)
    message = messages[message_name(operation, "Request")].FromString(written[0])
    got = from_pb(message)
    if operation not in ONE_MAP:
        got = [value for _, value in members(message)]
    expected = request_values(operation, frames)
    if operation not in ONE_MAP:
        expected += [None] * (len(got) - len(expected))
        if operation == "clear" and not frames:
            assert got == [None]
            return
    assert matches(got, expected), (operation, got, expected)


def zmq_vectors():
    known = operations()
    for vector in json.loads((GOLDEN / "zmq-requests.json").read_text()):
        if vector["reply"] and vector["operation"] in known:
            yield vector


def operations():
    schema = (TESTS.parent / "include/lmcached/schema.def").read_text()
    return re.findall(r"^    O\((\w+),", schema, re.MULTILINE)


def frames_of(vector, member):
    return [bytes.fromhex(frame) for frame in vector[member][2:]]


def test_requests_keep_their_values(probe):
    for vector in zmq_vectors():
        frames = frames_of(vector, "frames_hex")
        written = probe.ask("zmq", vector["operation"], *frames)
        before = request_values(vector["operation"], frames) if frames else []
        after = request_values(vector["operation"], written) if written else []
        if isinstance(before, dict):
            assert {key: after[key] for key in before} == before, vector["name"]
            assert not any(after[key] for key in set(after) - set(before)), vector["name"]
        elif vector["name"] in ("lookup_key_v0", "lookup_key_v1_no_readers"):
            assert {key: after[0][key] for key in before[0]} == before[0]
            assert not any(after[0][key] for key in set(after[0]) - set(before[0]))
        elif vector["name"] == "register_kv_cache_hints_nil":
            assert after[5] == {} and before[5] is None
        elif vector["name"] == "clear_legacy_no_payload":
            assert after == [True]
        else:
            assert after == before or after == before[:-1] and before[-1] is None, vector["name"]


def test_requests_are_the_same_on_both_wires(probe, messages):
    for vector in zmq_vectors():
        if vector["operation"] != "negotiate_chunk_size":
            check_request_as_pb(probe, messages, vector["operation"],
                                frames_of(vector, "frames_hex"))


def test_replies_are_the_same_on_both_wires(probe, messages):
    for vector in zmq_vectors():
        operation = vector["operation"]
        frames = frames_of(vector, "response_frames_hex")
        if not frames or operation == "negotiate_chunk_size":
            continue
        written = probe.ask("reply-pb", operation, frames[0])
        message = messages[message_name(operation, "Response")].FromString(written[0])
        expected = unpack(frames[0])
        got = from_pb(message)
        fields = [value for _, value in members(message)]
        if not isinstance(expected, dict) or len(fields) == 1:
            got = fields if isinstance(expected, list) and len(fields) > 1 else fields[0]
        if operation == "prepare_store":
            expected = expected["context"]
        elif operation.startswith("register_"):
            expected.pop("error", None)  # a status on gRPC (D36)
        assert matches(got, expected), (vector["name"], got, expected)


def grpc_vectors(messages):
    for vector in json.loads((GOLDEN / "grpc-messages.json").read_text()):
        if not vector.get("must_fail"):
            yield vector, messages[vector["message"].split(".")[-1]]


def test_protobuf_requests_come_out_on_the_other_wire(probe, messages):
    by_message = {message_name(name, "Request"): name for name in reversed(operations())
                  if name not in SHARED and name != "negotiate_chunk_size"}
    count = 0
    for vector, message_class in grpc_vectors(messages):
        operation = by_message.get(message_class.DESCRIPTOR.name)
        data = bytes.fromhex(vector["bytes_hex"])
        message = message_class.FromString(data)
        if operation in (None, "store_with_chunk_events"):
            continue
        written = probe.ask("pb-zmq", operation, data)
        got = request_values(operation, written) if written else []
        expected = from_pb(message) if operation in ONE_MAP else [v for _, v in members(message)]
        if operation == "clear" and expected == [None]:
            expected = [True]  # absent has no other spelling on ZMQ
        if isinstance(got, list):
            got += [None] * (len(expected) - len(got))
        assert matches(expected, got), (vector["message"], vector["case"], expected, got)
        count += 1
    assert count > 40


def test_protobuf_is_read_as_the_reference_reads_it(probe, messages):
    ours = {"IpcCacheServerKey": "cache_key", "EngineGroupInfo": "engine_group_info",
            "LookupRequest": "lookup_request", "StoreRequest": "store_request",
            "ReportBlockAllocationRequest": "report_block_allocation_request",
            "PollKvEventsResponse": "poll_kv_events_reply",
            "P2pLookupAndLockRequest": "p2p_lookup_and_lock_request",
            "CbRegisterRopeRequest": "cb_register_rope_request"}
    generator = random.Random(1)
    agreed = {True: 0, False: 0}
    for vector, message_class in grpc_vectors(messages):
        name = ours.get(message_class.DESCRIPTOR.name)
        if name is None or vector["case"] == "negative and extreme integers":
            continue
        for _ in range(40):
            data = bytearray.fromhex(vector["bytes_hex"])
            for _ in range(generator.randrange(3)):
                if data:
                    data[generator.randrange(len(data))] = generator.randrange(256)
            agreed[judge_message(probe, message_class, name, bytes(data))] += 1
    assert agreed[True] > 300 and agreed[False] > 100


def judge_message(probe, message_class, name, data):
    """True when both take it and agree on its value, False when both refuse it."""
    message = message_class()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an end of a group that nothing began
            message.ParseFromString(data)
        expected = from_pb(message)
    except Exception:  # the reference refuses it, or an encoded member is no map
        assert not isinstance(probe.ask("pb", name, data), list), (name, data.hex())
        return False
    written = probe.ask("pb", name, data)
    if not isinstance(written, list):
        # Ours refuses what the reference takes only for what it cannot hold or says it refuses.
        assert may_refuse(message, data), (name, data.hex(), written)
        return False
    again = from_pb(message_class.FromString(written[0]))
    if "4801" not in data.hex():
        assert again == expected or is_old_key(message, again, expected), (name, data.hex())
    return True


def may_refuse(message, data):
    text = str(message)
    numbers = [int(number) for number in re.findall(r"token_ids: (-?\d+)", text)]
    broken = any(number < 0 or number > 0xFFFFFFFF for number in numbers)
    return broken or "encoded_" in text


def is_old_key(message, ours, reference):
    """A varint in field 9 is a reader count to us (D50) and unknown to the reference."""
    return "num_kv_readers" in str(ours) and re.sub(r"'num_kv_readers': \d+", "", str(ours)) == \
        re.sub(r"'num_kv_readers': \d+", "", str(reference))


def random_key(generator):
    count = generator.choice([0, 1, 15, 16, 300])
    return {
        "model_name": generator.choice(["m", "Qwen/Qwen3-8B", "é" * 40, "x" * 300]),
        "world_size": generator.choice([1, 8, 300, -1, 2**40]),
        "worker_id": generator.choice([None, 0, 7, -1, 70000]),
        "token_ids": [generator.randrange(1 << generator.randrange(1, 33)) for _ in range(count)],
        "start": generator.randrange(1000), "end": generator.randrange(100000),
        "request_id": generator.choice(["", "cmpl-1", "r" * 33]),
        "cache_salt": generator.choice(["", "s"]),
        "request_configs": generator.choice([None, {}, {"a": [1, {"b": None}], "c": 1.5}]),
        "num_kv_readers": generator.randrange(5), "null_chunk_mask": None,
    }


def test_random_requests_agree_with_the_judges(probe, messages):
    generator = random.Random(7)
    pack = msgpack.packb
    for _ in range(150):
        key = random_key(generator)
        items = list(key.items())
        generator.shuffle(items)
        shuffled = pack(dict(items))
        blocks = [[generator.randrange(-5, 1 << 40) for _ in range(generator.randrange(4))]
                  for _ in range(generator.randrange(4))]
        instance = generator.randrange(-(2**63), 2**63)
        handle = bytes(generator.randrange(256) for _ in range(generator.choice([0, 15, 64])))
        assert probe.ask("zmq", "lookup", shuffled, pack(4)) == [pack(key), pack(4)]
        check_request_as_pb(probe, messages, "lookup", [shuffled, pack(4)])
        frames = [pack(key), pack(instance), pack(blocks), pack(handle), pack(16)]
        assert probe.ask("zmq", "retrieve", *frames) == frames
        check_request_as_pb(probe, messages, "retrieve", frames)
        frames = [pack(key), pack(instance), pack(handle)]
        check_request_as_pb(probe, messages, "commit_store", frames)


class Stub:
    """Stands for a class or function of torch and keeps what it was called with."""

    def __init__(self, module, name):
        self.name = f"{module}.{name}"

    def __call__(self, *args):
        return (self.name, *args)


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        return Stub(module, name)

    def persistent_load(self, record):
        return record


def load_storage(data):
    """The legacy storage stream, as torch reads it."""
    stream = io.BytesIO(data)
    parts = [Unpickler(stream).load() for _ in range(5)]
    assert parts[0] == 0x1950A86A20F9469CFC6C and parts[1] == 1001
    assert parts[2]["protocol_version"] == 1001 and parts[2]["little_endian"] is True
    kind, storage_class, key, location, elements, view = parts[3]
    assert (kind, location, view, parts[4]) == ("storage", "cpu", None, [key])
    raw = stream.read()
    assert struct.unpack("<q", raw[:8])[0] == elements
    return storage_class.name, elements, raw[8:]


@pytest.mark.parametrize("dtype, size, storage", [
    ("float16", 2, "torch.HalfStorage"), ("bfloat16", 2, "torch.BFloat16Storage"),
    ("float32", 4, "torch.FloatStorage"), ("uint8", 1, "torch.ByteStorage"),
    ("int64", 8, "torch.LongStorage"), ("bool", 1, "torch.BoolStorage"),
    ("float8_e4m3fn", 1, "torch.UntypedStorage"),
])
def test_tensors_that_we_write_load_in_python(probe, dtype, size, storage):
    shape = (2, 3, 70)
    blobs = [os.urandom(2 * 3 * 70 * size) for _ in range(3)]
    written = probe.ask("tensors", dtype, "2,3,70", *blobs)
    tensors = Unpickler(io.BytesIO(written[0])).load()
    assert len(tensors) == 3
    for tensor, blob in zip(tensors, blobs):
        call, stored, offset, sizes, strides, grad, hooks, *rest = tensor
        assert call.startswith("torch._utils._rebuild_tensor_v") and stored[0].endswith("_from_bytes")
        assert (offset, sizes, strides, grad) == (0, shape, (210, 70, 1), False)
        assert hooks == ("collections.OrderedDict",)
        name, elements, raw = load_storage(stored[1])
        assert (name, raw) == (storage, blob)
        assert elements == len(blob) // (1 if storage.endswith("UntypedStorage") else size)
        assert [stub.name for stub in rest] == ([f"torch.{dtype}"] if rest else [])
        assert bool(rest) == storage.endswith("UntypedStorage")
