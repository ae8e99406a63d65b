"""A client process of its own: `second_process.py URL JSON`. Prints one JSON line.

Actions: store (chunks made from a seed), retrieve (prints SHA-256 of every chunk), prepare-and-die,
lookup-and-die (ends by SIGKILL while it holds something)."""

import hashlib
import json
import os
import signal
import sys

from house import chunk_payload

from lmcached import Client, Worker


def die():
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    url, job = sys.argv[1], json.loads(sys.argv[2])
    client = Client(url, timeout=30)
    worker = Worker(client, job.get("model", "m"), timeout=30, **job["layout"])
    worker.register()
    key = worker.key(job["tokens"], job.get("request_id", "second"))
    count = len(job["tokens"]) // worker.chunk_size
    payloads = [chunk_payload((job.get("seed", 0), index), worker.chunk_bytes) for index in range(count)]
    answer = {"transport": worker.transport}
    if job["action"] == "store":
        answer["stored"] = worker.store(key, payloads)
        client.end_session(key.request_id).result(30)
    elif job["action"] == "retrieve":
        answer["chunks"] = client.lookup_chunks(key.for_worker(None))
        found = worker.retrieve(key)
        answer["digests"] = None if found is None else [hashlib.sha256(chunk).hexdigest() for chunk in found]
        client.end_session(key.request_id).result(30)
    elif job["action"] == "prepare-and-die":
        prepared = client.prepare_store(key, worker.instance_id).result(30)
        print(json.dumps({**answer, "slots": len(prepared.slots or [])}))
        die()
    elif job["action"] == "lookup-and-die":
        print(json.dumps({**answer, "chunks": client.lookup_chunks(key.for_worker(None))}))
        die()
    print(json.dumps(answer))
    if job.get("unregister", True):
        worker.unregister()
    client.close()


if __name__ == "__main__":
    main()
