"""Server modules in Python: discovery, handlers, the envelope, transport, liveness, status."""

import json
import re

import pytest

from house import ROOT, chunk_payload, end, free_ports, lookup_key, poll_until, run_cli
from python_house import Plugins, envelope, flags, needs_host, spec

pytestmark = needs_host


@pytest.fixture
def plugins(tmp_path):
    (tmp_path / "plugins").mkdir()
    return Plugins(tmp_path / "plugins")


@pytest.fixture
def serve(server, plugins):
    """``serve("name", spec(...), "--flag", ...)`` starts a server with these modules."""

    def start(*specs, more=(), **options):
        return server(*flags(*specs), *more, environment=plugins.environment, **options)

    return start


@pytest.fixture
def refused(plugins):
    """``refused(text, specs...)``: the start fails with that text, before a port is bound."""

    def start(*specs):
        done = run_cli(
            "server", "--no-http", "--port", str(free_ports(1)[0]), "--l1-size-gb", "0.0625", "--eviction-policy",
            "LRU", *flags(*specs), environment=plugins.environment,
        )  # fmt: skip
        assert done.returncode == 1, done.stdout + done.stderr
        assert "Serving requests" not in done.stderr
        return done.stdout + done.stderr

    return start


def composed(one):
    return re.search(r"Composed \d+ server modules: (.*) \(composition", one.log()).group(1).split("), ")


# ---- discovery ----


def test_04_an_installed_package_that_is_not_named_is_not_imported(serve, plugins, tmp_path):
    for name in ("named", "installed"):
        plugins.write(name, f"open({str(tmp_path / name)!r}, 'w').close()\nclass A(Base): pass\n")
    serve("named")
    assert (tmp_path / "named").exists() and not (tmp_path / "installed").exists()


def test_05_and_06_every_concrete_class_is_built_once(serve, plugins):
    plugins.write("other", "class A(Base): pass\n")
    plugins.write(
        "mine",
        """
        from other import A
        from lmcache.v1.multiprocess.modules.lookup import LookupModule
        class Abstract(DiscoverableModule): pass
        class B(Base):
            module_dependencies = [A, LookupModule]
        Alias = B
        """,
    )
    one = serve("mine", "other")
    names = [entry.partition("(")[0] for entry in composed(one)]
    assert names.count("A") == names.count("B") == names.count("LookupModule") == 1 and "Abstract" not in names
    assert names.index("LookupModule") < names.index("A") < names.index("B")
    assert re.search(r"\bB\(dependencies=\[A, LookupModule\]\)", one.log())


def test_07_a_module_that_cannot_be_used_fails_the_start(refused, plugins):
    plugins.write("empty", "x = 1\n", head=False)
    assert "server module empty defines no concrete DiscoverableModule subclass" in refused("empty")
    plugins.write("broken", "def fails():\n    raise ValueError('inside')\nfails()\n", head=False)
    text = refused("broken")
    assert "Failed to import engine module broken: inside" in text
    assert "Traceback (most recent call last)" in text and "in fails" in text
    assert "Failed to import engine module not.there: No module named 'not'" in refused("not.there")
    assert refused("empty").count("\n") < 8


def test_08_classes_of_one_path_share_one_configuration(serve, plugins):
    plugins.write(
        "pair",
        """
        from lmcache.v1.multiprocess.modules.lookup import LookupModule
        class A(Base): pass
        class B(Base):
            module_dependencies = [A]
            @classmethod
            def create(cls, build_ctx):
                self = cls(build_ctx)
                self.same = build_ctx.require(A).config is self.config
                self.builtin = build_ctx.config_for(LookupModule)
                return self
            def report_status(self):
                return {"pair": [self.same, self.builtin, self.config, list(self.config)]}
        """,
    )
    config = '{"b": 9007199254740993123456789, "a": NaN, "c": 1.0, "d": "\\u00e9"}'
    one = serve('{"module_path": "pair", "config": ' + config + "}")
    same, builtin, seen, order = one.status()["pair"]
    assert same is True and builtin == {} and order == ["b", "a", "c", "d"]
    assert seen["a"] is None and seen["c"] == 1.0 and seen["d"] == "é"


def test_08_one_path_with_two_configurations_fails_the_start(refused, plugins):
    plugins.write("pair", "class A(Base): pass\n")
    text = refused(spec("pair", {"x": 1}), spec("pair", {"x": 2}))
    assert "duplicate server module path with different config: pair" in text


def test_09_and_10_the_graph_orders_or_refuses(serve, refused, plugins):
    plugins.write("cycle", "class B(Base):\n    module_dependencies = ['A']\nclass A(Base):\n    dependencies = [B]\n")
    text = refused("cycle")
    assert "Module dependency cycle among: A, B" in text and "Traceback" not in text
    plugins.write("typo", "class A(Base):\n    module_dependencies = ['lokup']\n")
    wanted = "A depends on 'lokup', which is not a discoverable module (check the module_name spelling)."
    assert wanted in refused("typo")


# ---- handlers ----

TRANSFERS = """
    from typing import Optional
    from lmcache.v1.multiprocess.custom_types import (
        IPCCacheServerKey, PrepareRetrieveResponse, PrepareStoreResponse, RegisterEngineDrivenContextPayload,
        RegisterEngineDrivenContextResponse, SessionEndInfo)
    from lmcache.v1.multiprocess.modules.engine_driven_transfer import EngineDrivenTransferModule
    from lmcache.v1.multiprocess.modules.lookup import LookupModule

    BLOCKING, AFFINE = (HandlerType.BLOCKING,), {"requires_client_affinity": True}

    class Between(Base):
        module_dependencies = [LookupModule, EngineDrivenTransferModule]

        def __init__(self, build_ctx):
            super().__init__(build_ctx)
            self.lookups = build_ctx.require(LookupModule)
            self.transfers = build_ctx.require(EngineDrivenTransferModule)
            self.seen = []

        @request_handler(HandlerType.BLOCKING)
        def lookup(self, key: IPCCacheServerKey, tp_size: int) -> None:
            assert isinstance(key, IPCCacheServerKey) and key.worker_id is None
            self.seen.append(["lookup", key.model_name, len(key.token_ids), tp_size])
            self.lookups.lookup(key, tp_size)

        @request_handler(HandlerType.BLOCKING)
        def query_prefetch_status(self, request_id: str) -> Optional[int]:
            result = self.lookups.query_prefetch_status(request_id)
            self.seen.append(["query_prefetch_status", result])
            return result

        @request_handler(HandlerType.BLOCKING)
        def wait_prefetch_status(self, request_id: str, timeout: float) -> Optional[int]:
            result = self.lookups.wait_prefetch_status(request_id, timeout)
            self.seen.append(["wait_prefetch_status", result])
            return result

        @request_handler(HandlerType.BLOCKING)
        def free_lookup_locks(self, key: IPCCacheServerKey, tp_size: int) -> None:
            self.seen.append(["free_lookup_locks"])
            self.lookups.free_lookup_locks(key, tp_size)

        @request_handler(HandlerType.BLOCKING)
        def end_session(self, request_id: str, end_info: SessionEndInfo) -> None:
            self.seen.append(["end_session", end_info.finish_reason])
            self.lookups.end_session(request_id, end_info)

        @request_handler(HandlerType.SYNC)
        def register_kv_cache_engine_driven_context(
            self, payload: RegisterEngineDrivenContextPayload
        ) -> RegisterEngineDrivenContextResponse:
            assert isinstance(payload, RegisterEngineDrivenContextPayload)
            self.seen.append(["register", payload.dtype_str, payload.engine_group_infos])
            response = self.transfers.register_kv_cache_engine_driven_context(payload)
            assert isinstance(response, RegisterEngineDrivenContextResponse)
            return response

        @request_handler(HandlerType.SYNC)
        def unregister_kv_cache_engine_driven_context(self, instance_id: int) -> None:
            self.seen.append(["unregister"])
            self.transfers.unregister_kv_cache_engine_driven_context(instance_id)

        @request_handler(*BLOCKING, **AFFINE)
        def prepare_store(self, key: IPCCacheServerKey, instance_id: int) -> PrepareStoreResponse:
            response = self.transfers.prepare_store(key, instance_id)
            assert isinstance(response, PrepareStoreResponse)
            self.seen.append(["prepare_store", sorted(response.context)])
            return response

        @request_handler(*BLOCKING, **AFFINE)
        def commit_store(self, key: IPCCacheServerKey, instance_id: int, data: bytes) -> bool:
            self.seen.append(["commit_store", type(data).__name__])
            return self.transfers.commit_store(key, instance_id, data)

        @request_handler(*BLOCKING, **AFFINE)
        def prepare_retrieve(self, key: IPCCacheServerKey, instance_id: int) -> PrepareRetrieveResponse:
            response = self.transfers.prepare_retrieve(key, instance_id)
            self.seen.append(["prepare_retrieve", response.success])
            return response

        @request_handler(*BLOCKING, **AFFINE)
        def commit_retrieve(self, key: IPCCacheServerKey, instance_id: int) -> bool:
            self.seen.append(["commit_retrieve"])
            return self.transfers.commit_retrieve(key, instance_id)

        def report_status(self):
            return {"between": self.seen}
"""


@pytest.mark.parametrize("shm", [True, False], ids=["shared memory", "byte copy"])
def test_16_overrides_of_every_operation_of_a_worker_delegate(serve, plugins, raw, shm):
    plugins.write("between", TRANSFERS)
    one = serve("between", shm=shm)
    client = one.client()
    worker = one.worker(client)
    chunks = [chunk_payload(("between", shm, i), worker.chunk_bytes) for i in range(2)]
    key = worker.key(list(range(8)), request_id="r")
    assert worker.store(key, chunks)
    assert client.lookup_chunks(key.for_worker(None)) == 2
    assert worker.retrieve(key) == chunks
    found = lookup_key(range(8), "f")
    assert client.lookup_chunks(found) == 2
    client.free_lookup_locks(found, 1).result(30)
    assert raw(one).call(13, "r", {"finish_reason": "stop"}) == "void"
    end(client, "f")
    worker.unregister()
    seen = one.status()["between"]
    names = [entry[0] for entry in seen]
    assert ["lookup", "m", 8, 1] in seen and ["end_session", "stop"] in seen and ["end_session", ""] in seen
    assert {"register", "prepare_store", "commit_store", "prepare_retrieve", "commit_retrieve"} <= set(names)
    assert "free_lookup_locks" in names


def test_16_an_override_wins_over_the_management_module_without_a_declared_dependency(serve, plugins):
    plugins.write(
        "mine",
        """
        class Mine(Base):
            @request_handler(HandlerType.SYNC)
            def noop(self) -> str:
                return "mine"
        """,
    )
    one = serve("mine")
    assert one.client().noop().result(30) == "mine"
    assert "Mine replaces ManagementModule as the handler of 'noop'" in one.log()


def test_18_older_signatures_are_served(serve, plugins):
    plugins.write(
        "older",
        """
        class Older(Base):
            ended = []
            @request_handler(HandlerType.BLOCKING)
            def end_session(self, request_id: str) -> None:
                self.ended.append(request_id)
            @request_handler(HandlerType.BLOCKING)
            def clear(self) -> None:
                self.ended.append("clear")
            @request_handler(HandlerType.BLOCKING)
            def query_prefetch_lookup_hits(self, request_id: str) -> int | None:
                return None if request_id == "pending" else 7
            def report_status(self):
                return {"older": self.ended}
        """,
    )
    one = serve("older")
    client = one.client()
    end(client, "r")
    client.clear(True).result(30)
    assert client.query_prefetch_lookup_hits("pending").result(30) is None
    assert client.query_prefetch_lookup_hits("r").result(30) == 7
    assert one.status()["older"] == ["r", "clear"]


# ---- the envelope ----

def test_metadata_of_the_wrong_type_fails_the_start(refused, plugins):
    metadata = "    handle.__lmcache_server_module_handler__ = 'a.b'\n"
    plugins.write("odd", "class Odd(Base):\n    def handle(self, p): return p\n" + metadata)
    assert "Odd.handle has invalid server-module handler metadata" in refused("odd")


# ---- transport ----


REGISTRAR = """
    from lmcache.v1.multiprocess.rpc import get_rpc_spec
    class Registrar(Base):
        def register_zmq_services(self, server):
            {body}
        def answer(self, force: bool) -> None:
            logger.info("cleared by the registrar's handler")
"""


@pytest.mark.parametrize(
    "body, text",
    [
        (
            "server.add_handler('clear', HandlerType.SYNC, lambda a, b, c: None)",
            "Handler signature does not match for operation: clear",
        ),
        ("server.add_handler('nope', HandlerType.SYNC, lambda: None)", "nope"),
        (
            "server.add_normal_thread_pool(['noop'], 1)",
            "Handler for noop is SyncRequestHandler, not BlockingRequestHandler. "
            "Only blocking handlers can use thread pools.",
        ),
        (
            "server.add_normal_thread_pool(['poll_kv_events'], 1)",
            "No handler registered for operation: poll_kv_events. "
            "Register handlers before calling add_normal_thread_pool.",
        ),
        ("raise RuntimeError('no port')", "no port"),
    ],
)
def test_27_a_wrong_registrar_aborts_the_start(refused, plugins, body, text):
    plugins.write("registrar", REGISTRAR.format(body=body))
    assert text in refused("registrar")


# ---- liveness, status ----

def test_33_a_module_that_cannot_report_breaks_nothing(serve, plugins):
    plugins.write(
        "statuses",
        """
        class A(Base):
            def report_status(self):
                return {"shared": "a", "is_healthy": True, 3: (1, float("inf")), "deep": {"is_healthy": False}}
        class B(Base):
            module_dependencies = [A]
            def report_status(self):
                return {"shared": "b", "chunk_size": 99}
        class Raises(Base):
            def report_status(self):
                raise ValueError("no status")
        class Wrong(Base):
            def report_status(self):
                return ["no", "dict"]
        class Strange(Base):
            def report_status(self):
                return {"strange": object()}
        """,
    )
    one = serve("statuses")
    one.allow("ERROR: ")
    status = one.status()
    assert status["shared"] == "b" and status["chunk_size"] == 99 and status["3"] == [1, None]
    assert status["is_healthy"] is True
    errors = status["status_errors"]
    assert errors["Raises"] == "no status" and set(errors) == {"Raises", "Wrong", "Strange"}
    assert errors["Wrong"] == "report_status returned list, expected a dict"


def test_33_a_module_lowers_the_health_of_the_server(serve, plugins):
    plugins.write("ill", "class Ill(Base):\n    def report_status(self): return {'is_healthy': False}\n")
    assert serve("ill").status()["is_healthy"] is False


# ---- what modules see of the server ----


def test_35_and_36_imports_need_no_torch_and_loggers_write_the_servers_log(serve, plugins):
    plugins.write(
        "prints",
        """
        import sys
        class Prints(Base):
            @server_module_handler("prints.go")
            def go(self, payload: bytes) -> bytes:
                logger.info("by the %s", "logger")
                logger.debug("not at this level")
                print("by print")
                print("by stderr", file=sys.stderr)
                return str("torch" in sys.modules).encode()
        """,
    )
    one = serve("prints")
    one.allow("by stderr")
    assert envelope(one.client(), "prints.go")[1] == b"False"
    one.wait_log(r"\] LMCache INFO: by the logger \(prints\.py:\d+:prints\)")
    one.wait_log(r"LMCache INFO: by print \(")
    one.wait_log(r"LMCache ERROR: by stderr \(")
    assert "not at this level" not in one.log()


CONTEXT = """
    import json
    from lmcache.v1.distributed.api import ObjectKey
    class Sees(Base):
        @server_module_handler("sees.all")
        def all(self, payload: bytes) -> bytes:
            context = self.context
            tokens = list(range(12))
            hashes = context.token_hasher.compute_chunk_hashes(tokens)
            session = context.session_manager.get_or_create("other")
            session.set_tokens(tokens)
            key = ObjectKey(hashes[0], "m", ObjectKey.compute_kv_rank(1, 0))
            storage = context.storage_manager
            handle = storage.submit_prefetch_task([key])
            layout = context.layout_desc_registry.find("m", 1)
            return json.dumps({
                "chunk_size": context.chunk_size,
                "hashes": [one.hex() for one in hashes],
                "late": [one.hex() for one in context.token_hasher.compute_chunk_hashes(tokens, start=4)],
                "session": session.get_hashes() == hashes,
                "known": [one.hex() for one in context.session_manager.get_or_create("r").get_hashes()],
                "sessions": context.session_manager.active_count(),
                "healthy": storage.report_status()["is_healthy"],
                "memcheck": storage.memcheck(),
                "present": storage.contains([key]),
                "bytes": [None if one is None else one.hex() for one in storage.unsafe_read([key])],
                "prefetched": [storage.query_prefetch_status(handle), storage.query_prefetch_lookup_hits(handle)],
                "locked": storage.memory_usage()["read_locked_objects"],
                "released": [storage.finish_read_prefetched(handle.keys), storage.memory_usage()["read_locked_objects"]][1],
                "capacity": storage.l1_memory_desc.size,
                "shapes": None if layout is None else [list(s) for s in layout.shapes],
                "dtypes": None if layout is None else layout.dtypes,
                "pool": context.shm_pool_info["shm_name"],
                "mp": [self.build_ctx.mp_config.port, self.build_ctx.mp_config.server_modules[0].module_path],
            }).encode()
        @server_module_handler("sees.clear")
        def clear(self, payload: bytes) -> bytes:
            self.context.storage_manager.clear(force=True)
            return b""
"""


def test_the_context_of_a_module_is_the_servers(serve, plugins):
    plugins.write("sees", CONTEXT)
    one = serve("sees")
    client = one.client()
    worker = one.worker(client)
    chunk = chunk_payload("sees", worker.chunk_bytes)
    key = worker.key(list(range(4)), request_id="r")

    def ask():
        success, payload, error = envelope(client, "sees.all")
        assert success, error
        return json.loads(payload)

    empty = ask()
    golden = json.loads((ROOT / "tests" / "golden" / "chunk-hashes.json").read_text())
    assert "a2981a4d792b45f791d784bfd025148836ce3032f546cc490ef9fb7db9e639de" == empty["hashes"][0]
    assert empty["hashes"][0] in json.dumps(golden) and len(empty["hashes"]) == 3
    assert empty["late"] == empty["hashes"][1:] and empty["session"] is True
    assert empty["prefetched"] == [0, 0] and empty["locked"] == 0
    assert empty["present"] == [False] and empty["bytes"] == [None] and empty["known"] == []
    assert worker.store(key, [chunk])
    full = ask()
    assert full["present"] == [True] and full["prefetched"] == [1, 1] and (full["locked"], full["released"]) == (1, 0) and full["bytes"] == [chunk.hex()]
    assert full["known"] == full["hashes"][:1] and full["sessions"] == 1
    assert full["healthy"] is True and full["memcheck"] is True and full["pool"] == ""
    assert full["capacity"] == 1 << 26 and full["dtypes"] == ["torch.float16"]
    assert full["mp"] == [one.port, "sees"]
    assert envelope(client, "sees.clear")[0]
    assert ask()["present"] == [False]
    end(client, "r")
    worker.unregister()


def test_40_events_reach_subscribers_past_one_that_raises(serve, plugins):
    plugins.write(
        "events",
        """
        from lmcache.v1.mp_observability.event import Event, EventType
        from lmcache.v1.mp_observability.event_bus import EventSubscriber, get_event_bus
        from lmcache.v1.mp_observability.metrics import Counter, Gauge
        class Subscriber(EventSubscriber):
            def __init__(self, seen):
                self.seen = seen
            def get_subscriptions(self):
                return {EventType.MP_STORE_END: self.on, "events.own": self.on}
            def on(self, event):
                self.seen.append([str(getattr(event.event_type, "value", event.event_type)), event.session_id,
                                  event.timestamp > 1e9, sorted(event.metadata)])
            def shutdown(self):
                logger.info("subscriber shut down")
        class Events(Base):
            def __init__(self, build_ctx):
                super().__init__(build_ctx)
                self.seen = []
                self.counter = Counter(self, "own_events", "Own events.", label="kind")
                self.gauge = Gauge(self, "level", "A level.")
                bus = self.context.event_bus
                assert bus is get_event_bus()
                bus.subscribe("events.own", self.fails)
                bus.register_subscriber(Subscriber(self.seen))
                assert bus.has_subscribers("events.own") and not bus.has_subscribers(EventType.CB_CHUNKS_EVICTED)
            def fails(self, event):
                raise ValueError("bad callback")
            @server_module_handler("events.publish")
            def publish(self, payload: bytes) -> bytes:
                event = Event("events.own", "me", {"n": 1})
                self.context.event_bus.publish(event)
                self.counter.add(2, "x")
                self.gauge.set(0.5)
                return str(event.timestamp > 1e9).encode()
            def report_status(self):
                return {"events": self.seen}
            def close(self):
                logger.info("events closed")
        """,
    )
    one = serve("events")
    one.allow("ERROR: ", "WARNING: .*callback")
    client = one.client()
    assert envelope(client, "events.publish")[1] == b"True"
    poll_until(lambda: ["events.own", "me", True, ["n"]] in one.status()["events"], "own event")
    worker = one.worker(client)
    worker.store(worker.key(list(range(4)), request_id="s"), [chunk_payload("e", worker.chunk_bytes)])
    poll_until(lambda: any(e[:3] == ["mp.store.end", "s", True] for e in one.status()["events"]), "event of the server")
    end(client, "s")
    worker.unregister()
    metrics = one.get("/metrics").text
    assert re.search(r'lmcached_module_events_own_events(_total)?\{kind="x"\} 2', metrics), metrics[-2000:]
    one.judge()
    one.wait_log("bad callback")
    log = one.log()
    assert log.index("subscriber shut down") < log.index("events closed")


STORAGE = """
    import gc, json, time
    from lmcache.v1.distributed.api import ObjectKey, PrefetchRequestSpec
    class Reads(Base):
        def keys(self, count=3):
            hashes = self.context.token_hasher.compute_chunk_hashes(list(range(4 * count)))
            return [ObjectKey(one, "m", ObjectKey.compute_kv_rank(1, 0)) for one in hashes]
        def locked(self):
            return self.context.storage_manager.memory_usage()["read_locked_objects"]
        @server_module_handler("reads.views")
        def views(self, payload: bytes) -> bytes:
            storage = self.context.storage_manager
            first, second, missing = storage.unsafe_read(self.keys())
            seen = [type(first).__name__, first.readonly, first.nbytes, bytes(second).hex(), missing, self.locked()]
            storage.clear(force=False)
            seen.append(bytes(first) != b"" and storage.contains(self.keys()))
            storage.clear(force=True)
            seen += [bytes(second).hex() == seen[3], storage.contains(self.keys()), storage.memcheck()]
            first.release()
            del first, second
            gc.collect()
            return json.dumps([*seen, self.locked()]).encode()
        @server_module_handler("reads.prefetch")
        def prefetch(self, payload: bytes) -> bytes:
            storage = self.context.storage_manager
            one = storage.submit_prefetch_task(PrefetchRequestSpec([[key] for key in self.keys()], "r"))
            two = storage.submit_prefetch_task(self.keys())
            seen = [one.request_id, storage.query_prefetch_status(one), storage.query_prefetch_status(two), self.locked()]
            storage.clear(force=False)
            seen.append(storage.contains(self.keys()))
            storage.finish_read_prefetched(self.keys())
            seen.append(self.locked())
            storage.finish_read_prefetched(self.keys(), 5)
            seen.append(self.locked())
            storage.finish_read_prefetched(self.keys())
            self.left = storage.submit_prefetch_task(self.keys(1))
            return json.dumps([*seen, self.locked()]).encode()
"""


def test_objects_are_read_where_they_lie_and_prefetched_ones_stay(serve, plugins):
    plugins.write("reads", STORAGE)
    one = serve("reads", more=["--l1-read-ttl-seconds", "1"])
    client = one.client()
    worker = one.worker(client)
    chunks = [chunk_payload(("reads", i), worker.chunk_bytes) for i in range(2)]

    def ask(method):
        success, payload, error = envelope(client, method)
        assert success, error
        return json.loads(payload)

    key = worker.key(list(range(8)), request_id="r")
    assert worker.store(key, chunks)
    assert ask("reads.views") == [
        "memoryview", True, worker.chunk_bytes, chunks[1].hex(), None, 2, [True, True, False], True, [False] * 3, True, 0,
    ]  # fmt: skip
    assert worker.store(key, chunks)
    assert ask("reads.prefetch") == ["r", 2, 2, 2, [True, True, False], 2, 0, 1]
    poll_until(lambda: one.l1()["read_locked_count"] == 0, "the end of the lock that nobody ended")
    end(client, "r")
    worker.unregister()
