"""Every golden request, encoded by the client, equals the bytes; every golden reply decodes."""

import msgpack
import pytest

from conftest import VECTORS
from lmcached import (
    BlockAllocationRecord,
    CacheKey,
    EngineDrivenContext,
    EngineGroup,
    PreparedStore,
    ServerModuleCallRequest,
    read_tensors,
    write_tensors,
)
from lmcached.client import encode_request
from lmcached.operations import OPERATIONS

BY_NAME = {vector["name"]: vector for vector in VECTORS}
INSTANCE = 7310588712203948517
TOKENS = list(range(1, 9))

# Vectors that a client of this generation does not produce: older clients' keys and payloads,
# silence cases, operations that come later, and forms of the string name.
OTHER_CLIENTS = {
    "noop_by_string_name",
    "lookup_key_v1_no_readers",
    "lookup_key_v0",
    "wait_prefetch_status_int_timeout",
    "end_session_with_info_empty_map",
    "end_session_with_info",
    "end_session_with_info_nil",
    "register_engine_driven_legacy8",
    "register_kv_cache_hints_nil",
    "register_engine_driven_quant_rejected",
    "register_engine_driven_kernel_groups",
}


def unpack(hex_text):
    return msgpack.unpackb(bytes.fromhex(hex_text), ext_hook=lambda code, data: data)


class Recorder:
    """Stands in for the client's queue and keeps what would be sent."""

    def __init__(self):
        from lmcached import Client

        self.client = Client.__new__(Client)
        self.client._timeout = 1.0
        self.client._submit = self.submit

    def submit(self, operation, forms, timeout=None):
        self.sent = (operation, forms[0])


def key_from(wire):
    fields = unpack(wire)
    return CacheKey(**fields)


def context_from(wire):
    fields = unpack(wire)
    fields["engine_group_infos"] = [EngineGroup(**group) for group in fields["engine_group_infos"]]
    return EngineDrivenContext(**fields)


def call(client, vector):
    """Makes the vector's call through the typed method, with typed arguments."""
    frames = vector["frames_hex"][2:]
    arguments = [unpack(frame) for frame in frames]
    operation = vector["operation"]
    if operation in ("lookup", "free_lookup_locks"):
        return getattr(client, operation)(key_from(frames[0]), arguments[1])
    if operation in ("prepare_store", "commit_store", "prepare_retrieve", "commit_retrieve", "store", "retrieve"):
        return getattr(client, operation)(key_from(frames[0]), *arguments[1:])
    if operation == "register_kv_cache_engine_driven_context":
        return client.register_engine_driven(context_from(frames[0]))
    if operation == "unregister_kv_cache_engine_driven_context":
        return client.unregister_engine_driven(*arguments)
    if operation == "report_block_allocation":
        records = [BlockAllocationRecord(**record) for record in arguments[2]]
        return client.report_block_allocation(arguments[0], arguments[1], records)
    if operation == "register_kv_cache":
        groups = [EngineGroup(**group) for group in arguments[6]]
        return client.register_kv_cache(*arguments[:6], groups)
    if operation == "server_module_call":
        return client.server_module_call(ServerModuleCallRequest(**arguments[0]))
    return getattr(client, operation)(*arguments)


OURS = [
    v
    for v in VECTORS
    if v["operation"] in OPERATIONS and v["reply"] and v["tier"] != "LATER" and v["name"] not in OTHER_CLIENTS
]


def test_most_vectors_are_covered():
    assert len(OURS) >= 50


@pytest.mark.parametrize("vector", OURS, ids=lambda v: v["name"])
def test_request_is_encoded_as_the_vector_says(vector):
    if vector["name"] == "clear_legacy_no_payload":
        frames = encode_request(0, OPERATIONS["clear"], ())  # the older form, used as a fallback
    else:
        recorder = Recorder()
        call(recorder.client, vector)
        operation, arguments = recorder.sent
        frames = encode_request(unpack(vector["frames_hex"][0]), operation, arguments)
    assert [frame.hex() for frame in frames] == vector["frames_hex"]


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if v["operation"] in OPERATIONS and v["reply"]], ids=lambda v: v["name"]
)
def test_reply_decodes(vector):
    operation = OPERATIONS[vector["operation"]]
    frames = vector["response_frames_hex"]
    value = unpack(frames[2]) if len(frames) > 2 else None
    result = operation.result(len(frames) > 2, value)
    if operation.read is None:
        assert result is None
    if operation.may_pend:
        assert result == value


def test_slots_of_a_prepared_store_are_typed():
    frames = BY_NAME["prepare_store_partial"]["response_frames_hex"]
    prepared = OPERATIONS["prepare_store"].result(True, unpack(frames[2]))
    assert prepared.chunk_indices == [1]
    assert (prepared.slots[0].offset, prepared.slots[0].length) == (8192, 256)
    assert prepared.slots[0].shape == (2, 2, 4, 8) and prepared.slots[0].dtype == "float16"
    pickled = OPERATIONS["prepare_store"].result(True, unpack(BY_NAME["prepare_store_pickle_mode"]["response_frames_hex"][2]))
    assert pickled == PreparedStore(None, [])


def element_bytes(name):
    """What the note of the f16 vector says the tensors hold: element n of tensor i is n + i."""
    import struct

    return [struct.pack("<128e", *(float(n + i) for n in range(128))) for i in range(2)]


def test_tensors_that_torch_pickled_are_read():
    data = unpack(BY_NAME["commit_store_pickle_f16"]["frames_hex"][4])
    tensors = read_tensors(data)
    assert [t.shape for t in tensors] == [(2, 2, 4, 8)] * 2
    assert [t.tobytes() for t in tensors] == element_bytes("f16")


def test_the_template_is_written_byte_for_byte():
    reply = unpack(BY_NAME["prepare_retrieve_pickle_hit_c_template"]["response_frames_hex"][2])
    assert write_tensors(element_bytes("f16"), "float16", (2, 2, 4, 8)) == reply["data"]
    assert [t.tobytes() for t in read_tensors(reply["data"])] == element_bytes("f16")
