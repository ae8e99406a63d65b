#!/usr/bin/env python3
"""Writes the golden vectors as seeds: make_corpus.py DIRECTORY (gets one folder per target)."""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"


def operations():
    """Names of the operations in the order of the schema, which is their index."""
    schema = (ROOT / "include" / "lmcached" / "schema.def").read_text()
    return re.findall(r"^    O\((\w+),", schema, re.MULTILINE)


def messages():
    """Which message of grpc-messages.json belongs to which operation: name -> (index, 0 or 1)."""
    schema = (ROOT / "include" / "lmcached" / "schema.def").read_text()
    table = {}
    for index, name in enumerate(operations()):
        method = re.search(r"O\(%s,[^()]*LMC_PATH\(\w+, (\w+)\)" % name, schema)
        if method:
            wire = method.group(1).replace("P2P", "P2p")
            table[wire + "Request"] = (index, 0)
            table[wire + "Response"] = (index, 1)
    return table


def unbin(data):
    """The content of a MessagePack byte string."""
    width = {0xC4: 1, 0xC5: 2, 0xC6: 4}[data[0]]
    return data[1 + width :]


def zmq_seeds():
    index = {name: i for i, name in enumerate(operations())}
    for vector in json.loads((GOLDEN / "zmq-requests.json").read_text()):
        if vector["operation"] not in index:
            continue
        frames = [bytes.fromhex(frame) for frame in vector["frames_hex"][2:]]
        head = bytes([index[vector["operation"]], 0])
        yield head + b"".join(len(f).to_bytes(2, "little") + f for f in frames)
        for frame in vector["response_frames_hex"][2:]:
            yield bytes([index[vector["operation"]], 1]) + bytes.fromhex(frame)


def protobuf_seeds():
    table = messages()
    for vector in json.loads((GOLDEN / "grpc-messages.json").read_text()):
        name = vector["message"].split(".")[-1]
        body = bytes.fromhex(vector["bytes_hex"])
        if name in table:
            yield bytes(table[name]) + body
        elif name == "IpcCacheServerKey" and len(body) < 128:
            yield bytes(table["LookupRequest"]) + b"\x0a" + bytes([len(body)]) + body


def pickle_seeds():
    for vector in json.loads((GOLDEN / "zmq-requests.json").read_text()):
        frames = [bytes.fromhex(frame) for frame in vector["frames_hex"]]
        if vector["name"].startswith("commit_store_pickle"):
            yield unbin(frames[4])
        elif vector["name"].startswith("register_kv_cache_"):
            yield frames[3][4:] if frames[3][1] == 0xC7 else frames[3]
        elif vector["name"].startswith("prepare_retrieve_pickle"):
            reply = bytes.fromhex(vector["response_frames_hex"][2])
            yield unbin(reply[reply.index(b"\xa4data") + 5 :])


def main(directory):
    seeds = {"zmq_request": zmq_seeds, "protobuf": protobuf_seeds, "pickle": pickle_seeds}
    for target, generate in seeds.items():
        folder = pathlib.Path(directory) / target
        folder.mkdir(parents=True, exist_ok=True)
        count = 0
        for count, seed in enumerate(generate(), 1):
            (folder / f"golden-{count:03d}").write_bytes(seed)
        print(f"{target}: {count} seeds")


if __name__ == "__main__":
    main(sys.argv[1])
