"""A stand-in for ``_lmcache_host``, so that the package's part of the server can be tested alone."""

import contextlib
import json
import logging
import sys
import types


class FakeHost(types.ModuleType):
    def __init__(self, specs=(), mp_config=None):
        super().__init__("_lmcache_host")
        self.StartError = type("StartError", (Exception,), {})
        self.VERSION = "0.0"
        self.REHEARSAL = False
        self.SERVER_ARGV = ["lmcached", "server"]
        self.HASH_SIZE = 32
        self.specs = list(specs)
        self.mp_config = {"chunk_size": 4, "hash_algorithm": "blake3", **(mp_config or {})}
        self.lines = []  # (level, logger, message)
        self.built = ["LookupModule", "EngineDrivenTransferModule"]
        self.calls = []  # (module, operation, arguments)
        self.results = {}
        self.subscriptions = {}
        self.published = []
        self.pools = []
        self.handlers = {"lookup": "BLOCKING", "noop": "SYNC"}
        self.types = {}

    def text(self, level=0):
        return "\n".join(message for at, _name, message in self.lines if at >= level)

    # ---- the contract ----

    def log(self, level, logger, file, line, message):
        self.lines.append((level, logger, message))

    def log_level(self, logger):
        return 20

    def config_json(self):
        return json.dumps({"mp_config": self.mp_config, "coordinator_config": {"url": "http://c"}})

    def server_modules_json(self):
        return json.dumps(self.specs)

    def set_message_types(self, kinds):
        self.types = kinds

    def built_modules(self):
        return list(self.built)

    def module_operations(self, module):
        return ["lookup"]

    def call_operation(self, module, operation, arguments):
        self.calls.append((module, operation, arguments))
        if (module, operation) not in self.results:
            raise KeyError(operation)
        return self.results[module, operation]

    def chunk_size(self):
        return 4

    def hash_chunks(self, tokens, previous=None):
        hashes = []
        for start in range(0, len(tokens) - 3, 4):
            previous = repr((previous, list(tokens[start : start + 4]))).encode()
            hashes.append(previous)
        return hashes

    def session_count(self):
        return 3

    def session_hashes(self, request_id, first=0):
        return [b"a", b"b"][first:] if request_id == "known" else []

    def end_session(self, request_id):
        self.calls.append(("sessions", "end", request_id))

    def shm_pool(self):
        return ("pool", 64)

    def model_layouts(self, model_name, world_size):
        if model_name != "m":
            return []
        return [{"bytes": 8, "window": 2, "dims": [2, 2], "dtype": "float16", "is_extra": False}]

    def has_bus(self):
        return True

    def subscribe(self, name, callback, owner):
        self.subscriptions.setdefault(name, []).append(callback)

    def has_subscribers(self, name):
        return name in self.subscriptions

    def publish(self, name, session_id, metadata):
        self.published.append((name, session_id, metadata))
        for callback in self.subscriptions.get(name, ()):
            callback(name, session_id, metadata, 12.5)
        return 12.5 if name in self.subscriptions else None

    def zmq_add_handler(self, operation, handler_type, affinity, handler, arity):
        self.calls.append(("zmq", operation, (handler_type, affinity, handler, arity)))

    def zmq_add_pool(self, operations, max_workers, affinity):
        self.pools.append((operations, max_workers, affinity))

    def zmq_handlers(self):
        return dict(self.handlers)


def forget_lmcache():
    for name in [n for n in sys.modules if n == "lmcache" or n.startswith("lmcache.")]:
        del sys.modules[name]
    for logger in list(logging.root.manager.loggerDict.values()):
        handlers = getattr(logger, "handlers", [])
        handlers[:] = [one for one in handlers if not getattr(one, "lmcache", False)]


@contextlib.contextmanager
def inside(host):
    """The package as it is inside a server: what is imported meanwhile is forgotten after."""
    before = dict(sys.modules)
    forget_lmcache()
    sys.modules["_lmcache_host"] = host
    try:
        yield
    finally:
        forget_lmcache()
        for name in set(sys.modules) - set(before):
            if name == "_lmcache_host" or getattr(sys.modules[name], "__plugin__", False):
                del sys.modules[name]
        sys.modules.update({n: m for n, m in before.items() if n.startswith("lmcache")})
