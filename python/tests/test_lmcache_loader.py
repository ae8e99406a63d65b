"""What the package does for the host inside lmcached, against a stand-in for the host."""

import importlib
import json
import sys
import textwrap

import pytest

from fake_host import FakeHost, inside

HEAD = """
    __plugin__ = True
    from lmcache.v1.multiprocess.engine_module import DiscoverableModule
    from lmcache.v1.multiprocess.ext_server_module import server_module_handler
    from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler

    class Base(DiscoverableModule):
        context = None
        def report_status(self): return {}
        def close(self): pass
"""
MODULE = "    @classmethod\n    def create(cls, build_ctx):\n        cls.build_ctx = build_ctx\n        return cls()\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """``package(name, source)`` writes a module of a plugin."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name, source, head=True):
        path = tmp_path.joinpath(*name.split("."))
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in path.relative_to(tmp_path).parents:
            if str(parent) != "." and not (tmp_path / parent / "__init__.py").exists():
                (tmp_path / parent / "__init__.py").write_text("__plugin__ = True\n")
        text = textwrap.dedent(HEAD) if head else "__plugin__ = True\n"
        target = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        target.write_text(text + textwrap.dedent(source).replace("MODULE", MODULE))
        importlib.invalidate_caches()

    return write


@pytest.fixture
def serve():
    """``serve(host)`` is the bootstrap of a server that has that host."""
    entered = []

    def enter(host):
        while entered:
            entered.pop().__exit__(None, None, None)
        entered.append(inside(host))
        entered[-1].__enter__()
        bootstrap = importlib.import_module("lmcache._bootstrap")
        return bootstrap

    yield enter
    for context in entered:
        context.__exit__(None, None, None)


def full(spec):
    return {"config": {}, **(spec if isinstance(spec, dict) else {"module_path": spec})}


def load(serve, *specs, native=(), **options):
    host = FakeHost(map(full, specs), **options)
    bootstrap = serve(host)
    return host, bootstrap, bootstrap.load(["LookupModule", "ManagementModule"], list(native))


def fails(serve, host, text, call):
    with pytest.raises(host.StartError) as failure:
        call()
    assert text in str(failure.value)


def start_fails(serve, text, *specs, native=()):
    host = FakeHost(map(full, specs))
    bootstrap = serve(host)
    with pytest.raises(host.StartError) as failure:
        bootstrap.load(["LookupModule"], list(native))
    assert text in str(failure.value)
    return host


# ---- discovery ----


def test_05_concrete_subclasses_count_abstract_ones_do_not_and_aliases_once(package, serve):
    package("p5", "class Abstract(Base): pass\nclass B(Base):\nMODULE\nclass _A(Base):\nMODULE\nAlias = B\n")
    _host, _bootstrap, rows = load(serve, "p5")
    assert [row["name"] for row in rows] == ["B", "_A"]
    assert rows[0]["module_path"] == "p5" and rows[0]["deferred"] is False


def test_06_an_imported_class_is_not_found_again(package, serve):
    package("p6a", "class A(Base):\nMODULE\n")
    package("p6b", "from p6a import A\nfrom lmcache.v1.multiprocess.modules.lookup import LookupModule\n"
                   "class B(Base):\n    module_dependencies = [A, LookupModule]\nMODULE\n")  # fmt: skip
    _host, _bootstrap, rows = load(serve, "p6b", "p6a")
    assert [(row["name"], row["dependencies"]) for row in rows] == [("B", ["A", "LookupModule"]), ("A", [])]


def test_05_a_class_of_a_submodule_counts_when_its_package_shows_it(package, serve):
    package("p5c.impl", "class A(Base):\nMODULE\n")
    package("p5c.hidden", "class H(Base):\nMODULE\n")
    (importlib.import_module("pathlib").Path(sys.path[0]) / "p5c" / "__init__.py").write_text(
        "__plugin__ = True\n__version__ = '1.2'\nfrom p5c.impl import A\n"
    )
    _host, _bootstrap, rows = load(serve, "p5c")
    assert [(row["name"], row["version"]) for row in rows] == [("A", "1.2")]


def test_08_config_for_is_one_object_per_path_and_the_longest_path_owns_a_class(package, serve):
    package("p8.impl", "class A(Base):\nMODULE\nclass B(Base):\nMODULE\n")
    (importlib.import_module("pathlib").Path(sys.path[0]) / "p8" / "__init__.py").write_text(
        "__plugin__ = True\nfrom p8.impl import A\n"
    )
    specs = [{"module_path": "p8", "config": {"x": "outer"}}, {"module_path": "p8.impl", "config": {"x": "inner"}}]
    _host, bootstrap, rows = load(serve, *specs)
    assert [row["name"] for row in rows] == ["A", "B"]
    one, two = bootstrap.create(0)["instance"], bootstrap.create(1)["instance"]
    context = type(one).build_ctx
    assert context.config_for(type(one)) is context.config_for(two) == {"x": "inner"}
    lookup = importlib.import_module("lmcache.v1.multiprocess.modules.lookup").LookupModule
    assert context.config_for(lookup) == {}
    assert context.mp_config.chunk_size == 4 and context.coordinator_config.url == "http://c"
    assert [spec.module_path for spec in context.mp_config.server_modules] == ["p8", "p8.impl"]


def test_07_a_module_without_class_and_factory_fails_naming_its_path(package, serve):
    package("p7", "x = 1\n")
    start_fails(serve, "server module p7 defines no concrete DiscoverableModule subclass", "p7")


def test_07_a_class_that_lacks_a_member_is_named_with_it(package, serve):
    package("p7c", "class Half(Base):\n    module_name = 'half'\n")
    told = "server module p7c defines no concrete DiscoverableModule subclass: Base lacks create; Half lacks create"
    start_fails(serve, told, "p7c")


def test_07_an_import_error_shows_its_own_traceback(package, serve):
    package("p7b", "def broken():\n    raise ValueError('inside')\nbroken()\n")
    host = start_fails(serve, "Failed to import engine module p7b: inside", "p7b")
    assert "Traceback (most recent call last):" in host.text(40) and "in broken" in host.text(40)
    start_fails(serve, "Failed to import engine module p7c: No module named 'p7c'", "p7c")


def test_07_a_module_that_exits_at_import_fails_the_start(package, serve):
    package("p7d", "import sys\nsys.exit('bye')\n")
    start_fails(serve, "Failed to import engine module p7d: bye", "p7d")


def test_08_one_path_twice_needs_one_config(package, serve):
    package("p8b", "class A(Base):\nMODULE\n")
    same = {"module_path": "p8b", "config": {"x": 1}}
    host, _bootstrap, rows = load(serve, same, dict(same))
    assert len(rows) == 1 and "server module p8b is named twice" in host.text(30)
    text = "duplicate server module path with different config: p8b"
    start_fails(serve, text, same, {"module_path": "p8b", "config": {"x": 2}})


# ---- graph ----


def test_09_a_wrong_dependency_fails_before_anything_is_built(package, serve):
    package("p9", "class A(Base):\n    module_dependencies = ['typo']\nMODULE\n")
    start_fails(
        serve, "A depends on 'typo', which is not a discoverable module (check the module_name spelling).", "p9"
    )
    package("p9a", "class Other(Base):\nMODULE\n")
    package("p9b", "from p9a import Other\nclass A(Base):\n    module_dependencies = (Other,)\nMODULE\n")
    start_fails(serve, "A depends on Other, which is not a discoverable module", "p9b")
    package("p9c", "class A(Base):\n    module_dependencies = [3]\nMODULE\n")
    start_fails(serve, "A has an invalid dependency: 3", "p9c")


def test_09_a_cycle_names_its_classes(package, serve):
    package("p9d", "class B(Base):\n    module_dependencies = ['A']\nMODULE\n"
                   "class A(Base):\n    module_dependencies = [B]\nMODULE\n"
                   "class C(Base):\n    module_dependencies = [B]\nMODULE\n")  # fmt: skip
    start_fails(serve, "Module dependency cycle among: A, B", "p9d")


def test_dependencies_may_be_names_of_every_kind_of_module(package, serve):
    package("pn", "class A(Base):\n    module_name = 'my-a'\nMODULE\n"
                  "class B(Base):\n    dependencies = ['my-a', 'lookup', 'HelloModule', 'kv_events']\nMODULE\n")  # fmt: skip
    _host, _bootstrap, rows = load(serve, "pn", native=["HelloModule"])
    assert rows[0]["name"] == "my_a"
    assert rows[1]["dependencies"] == ["my_a", "LookupModule", "HelloModule", "KVEventModule"]


def test_classes_of_one_name_get_names_of_their_own(package, serve):
    package("pu1", "class Same(Base):\nMODULE\n")
    package("pu2", "class Same(Base):\nMODULE\nclass LookupModule(Base):\nMODULE\n")
    _host, _bootstrap, rows = load(serve, "pu1", "pu2")
    assert [row["name"] for row in rows] == ["Same", "LookupModule_2", "Same_2"]


# ---- create ----


def test_11_a_class_that_does_not_apply_is_not_built_for_its_dependents(package, serve):
    package("p11", "class A(Base):\n    @classmethod\n    def create(cls, build_ctx): return None\n"
                   "class B(Base):\n    module_dependencies = [A]\nMODULE\n")  # fmt: skip
    _host, bootstrap, _rows = load(serve, "p11")
    assert bootstrap.create(0) is None
    instance = bootstrap.create(1)["instance"]
    text = r"^Module 'A' is not built yet; built so far: \['B', 'Engine.*', 'Lookup.*'\]$"
    with pytest.raises(ValueError, match=text):
        instance.build_ctx.require(sys.modules["p11"].A)


def test_03_what_create_returns_is_checked(package, serve):
    package("p3", "class A(DiscoverableModule):\n    @classmethod\n    def create(cls, build_ctx): return 3\n")
    host, bootstrap, _rows = load(serve, "p3")
    text = "server module p3 class A returned a non-EngineModule value: 3"
    fails(serve, host, text, lambda: bootstrap.create(0))


def test_16_an_override_reaches_the_original(package, serve):
    package("p16", """
        from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey
        from lmcache.v1.multiprocess.modules.lookup import LookupModule
        class A(Base):
            module_dependencies = [LookupModule]
            def __init__(self, inner): self.inner = inner
            @classmethod
            def create(cls, build_ctx): return cls(build_ctx.require(LookupModule))
            @request_handler(HandlerType.BLOCKING)
            def lookup(self, key: IPCCacheServerKey, tp_size: int) -> None:
                self.inner.lookup(key, tp_size)
    """)  # fmt: skip
    host, bootstrap, _rows = load(serve, "p16")
    built = bootstrap.create(0)
    entry = built["operations"][0]
    declared = entry["operation"], entry["handler_type"], entry["affinity"], entry["arity"]
    assert declared == ("lookup", "BLOCKING", False, 2)
    assert entry["qualname"] == "A.lookup"
    host.results["LookupModule", "lookup"] = None
    key = bootstrap.message_types["cache_key"]({"model_name": "m", "token_ids": [1]})
    entry["handler"](key, 2)
    assert host.calls == [("LookupModule", "lookup", (key, 2))]
    with pytest.raises(NotImplementedError, match="LookupModule.end_session is not available"):
        built["instance"].inner.end_session("r")


def test_a_subclass_of_a_module_of_the_server_serves_what_it_overrides(package, serve):
    package("p65", """
        from lmcache.v1.multiprocess.modules.lookup import LookupModule
        class Mine(LookupModule):
            @request_handler(HandlerType.BLOCKING)
            def query_prefetch_lookup_hits(self, request_id: str) -> int | None:
                return super().query_prefetch_lookup_hits(request_id)
    """)  # fmt: skip
    host, bootstrap, rows = load(serve, "p65")
    assert rows[0]["name"] == "Mine" and rows[0]["dependencies"] == ["LookupModule"]
    built = bootstrap.create(0)
    assert [entry["operation"] for entry in built["operations"]] == ["query_prefetch_lookup_hits"]
    host.results["LookupModule", "query_prefetch_lookup_hits"] = 7
    assert built["operations"][0]["handler"]("r") == 7


@pytest.mark.parametrize(
    "body, text",
    [
        ("@request_handler()\n    def nope(self) -> None: ...", "Handler A.nope is for an unknown operation: nope"),
        (
            "@request_handler(HandlerType.NON_BLOCKING)\n    def noop(self) -> str: ...",
            "Non-blocking handler is not supported yet",
        ),
        (
            "@request_handler()\n    def noop(self) -> int: ...",
            "Handler A.noop return annotation int does not match RPC 'noop' type str",
        ),
        (
            "@request_handler()\n    def end_session(self, request_id) -> None: ...",
            "Handler A.end_session payload annotations (<none>) do not match RPC 'end_session' types",
        ),
        (
            "@server_module_handler('a.b')\n    def one(self, p): ...\n    two = one",
            "duplicate server module method: a.b",
        ),
    ],
)
def test_17_a_wrong_handler_aborts_the_start(package, serve, body, text):
    package("p17", f"class A(Base):\nMODULE\n    {body}\n")
    host, bootstrap, _rows = load(serve, "p17")
    fails(serve, host, text, lambda: bootstrap.create(0))


def test_arguments_are_converted_to_what_a_handler_declares(package, serve):
    package("pc", """
        from lmcache.utils import EngineType
        from lmcache.v1.kv_format.types import LayoutHints
        from lmcache.v1.multiprocess.custom_types import DeviceIPCWrapper, SessionEndInfo
        from lmcache.v1.multiprocess.group_view import EngineGroupInfo
        class A(Base):
            @classmethod
            def create(cls, build_ctx): return cls()
            @request_handler()
            def register_kv_cache(self, instance_id: int, kv_cache: list[DeviceIPCWrapper], model_name: str,
                                  world_size: int, engine_type: EngineType, layout_hints: LayoutHints,
                                  engine_group_infos: list[EngineGroupInfo]) -> None:
                self.got = (kv_cache, engine_type)
            @request_handler(HandlerType.BLOCKING)
            def end_session(self, request_id: str, end_info: SessionEndInfo) -> None:
                self.end = end_info
    """)  # fmt: skip
    _host, bootstrap, _rows = load(serve, "pc")
    built = bootstrap.create(0)
    handlers = {entry["operation"]: entry["handler"] for entry in built["operations"]}
    handlers["register_kv_cache"](1, [b"w"], "m", 1, "vllm", {}, [])
    wrappers, engine = built["instance"].got
    assert type(wrappers[0]).__name__ == "DeviceIPCWrapper" and wrappers[0] == b"w" and engine.name == "VLLM"
    handlers["register_kv_cache"](1, [], "m", 1, "7", {}, [])
    assert built["instance"].got[1] == "7"
    handlers["end_session"]("r", {"finish_reason": "stop"})
    assert built["instance"].end.finish_reason == "stop"
    handlers["end_session"]("r", None)
    assert built["instance"].end.stop_token_id is None


# ---- liveness, status, close ----


def test_30_four_methods_make_a_target_three_do_not(package, serve):
    package("p30", """
        from lmcache.v1.multiprocess.engine_module import InstanceLivenessTarget
        class Three(Base):
            @classmethod
            def create(cls, build_ctx): return cls()
            def touch_instance(self, i): pass
            def reap_stale_instances(self, a, b): return []
            def tracked_instance_count(self): return 0
        class TFour(Three):
            def drop_instance_state(self, i): pass
        class UDefaults(Base, InstanceLivenessTarget):
            @classmethod
            def create(cls, build_ctx): return cls()
    """)  # fmt: skip
    _host, bootstrap, rows = load(serve, "p30")
    found = {row["name"]: bootstrap.create(i) for i, row in enumerate(rows)}
    assert found["Three"]["liveness"] is None
    assert [method.__name__ for method in found["TFour"]["liveness"]] == [
        "touch_instance", "reap_stale_instances", "tracked_instance_count", "drop_instance_state",
    ]  # fmt: skip
    assert found["UDefaults"]["liveness"][1](1.0, 2.0) == []


def test_33_a_status_is_made_plain_or_refused(package, serve):
    package("p33", "class A(Base):\nMODULE\n    def report_status(self): return self.status\n")
    _host, bootstrap, _rows = load(serve, "p33")
    instance = bootstrap.create(0)["instance"]
    instance.status = {1: (float("nan"), {None: "\ud800"}), "n": 2**70}
    assert json.loads(bootstrap.report_status(0)) == {"1": [None, {"None": "?"}], "n": 2**70}
    for status, text in [
        (None, "report_status returned NoneType, expected a dict"),
        ({"a": {1, 2}}, "report_status has a set, which JSON cannot hold"),
    ]:
        instance.status = status
        with pytest.raises(TypeError, match=text):
            bootstrap.report_status(0)
    instance.status = {}
    instance.status["self"] = instance.status
    with pytest.raises(TypeError, match="nested too deeply"):
        bootstrap.report_status(0)


# ---- factories ----

LEGACY = """
    from lmcache.v1.multiprocess.server_module import ServerModuleComponents
    class M:
        context = None
        def __init__(self, name): self.name = name
        def report_status(self): return {"last": self.name, self.name: 1}
        def close(self): closed.append(self.name)
    closed, served, contexts = [], [], []
    def build_server_modules(ctx):
        contexts.append(ctx)
        one, two = M("one"), M("two")
        two.register_zmq_services = lambda server: served.append("two")
        registrars = [lambda server: served.append("explicit"), two.register_zmq_services]
        return ServerModuleComponents([one, two], [], registrars)
    def nothing(ctx): return None
    def wrong(ctx): return 3
    not_callable = 3
"""


def test_15_a_factory_brings_its_modules(package, serve):
    package("p15", LEGACY)
    _host, bootstrap, rows = load(serve, {"module_path": "p15", "config": {"x": 1}})
    assert rows[0]["name"] == "p15_build_server_modules" and rows[0]["dependencies"] == []
    made = bootstrap.create(0)["made"]
    assert [(one["index"], one["name"], one["operations"]) for one in made] == [(1, "M", []), (2, "M_2", [])]
    plugin = sys.modules["p15"]
    context = plugin.contexts[0]
    assert context.config == {"x": 1} and context.mp_config.chunk_size == 4
    assert [type(module).__name__ for module in context.modules] == ["LookupModule", "EngineDrivenTransferModule"]
    bootstrap.register_zmq(1)
    bootstrap.register_zmq(2)
    assert plugin.served == ["explicit", "two"]
    assert json.loads(bootstrap.report_status(1)) == {"last": "one", "one": 1}
    build_ctx = sys.modules["lmcache._units"]._context
    assert len(build_ctx.built) == 4
    bootstrap.close(2)
    bootstrap.close(1)
    assert plugin.closed == ["two", "one"] and build_ctx.module_names == ["EngineDrivenTransferModule", "LookupModule"]


def test_15_a_later_factory_sees_the_modules_of_an_earlier_one(package, serve):
    package("p15a", LEGACY)
    package("p15b", LEGACY)
    _host, bootstrap, _rows = load(serve, "p15a", "p15b")
    bootstrap.create(0)
    bootstrap.create(1)
    assert [m.name for m in sys.modules["p15b"].contexts[0].modules[2:]] == ["one", "two"]


def test_15_an_explicit_factory_wins_over_classes_and_is_checked(package, serve):
    cls = "    class A(Base):\n        @classmethod\n        def create(cls, build_ctx): return cls()\n"
    package("p15c", LEGACY + cls)
    _host, bootstrap, rows = load(serve, {"module_path": "p15c", "factory_name": "nothing"})
    assert rows[0]["name"] == "p15c_nothing" and bootstrap.create(0) is None
    _host, _bootstrap, rows = load(serve, "p15c")
    assert [row["name"] for row in rows] == ["A"]
    start_fails(serve, "has no attribute 'gone'", {"module_path": "p15c", "factory_name": "gone"})
    text = "server module factory p15c.not_callable is not callable"
    start_fails(serve, text, {"module_path": "p15c", "factory_name": "not_callable"})
    host, bootstrap, _rows = load(serve, {"module_path": "p15c", "factory_name": "wrong"})
    text = "server module factory p15c.wrong must return an EngineModule, a sequence of EngineModule, or None"
    fails(serve, host, text, lambda: bootstrap.create(0))


# ---- registrars ----


def test_26_the_registrar_gets_a_zmq_context_and_adds_handlers(package, serve):
    package("p26", """
        class A(Base):
            @classmethod
            def create(cls, build_ctx): return cls()
            def register_zmq_services(self, server):
                self.ctx = server.ctx
                server.add_handler("noop", HandlerType.SYNC, self.noop)
                server.add_blocking_handler("clear", lambda force: None)
                server.add_normal_thread_pool(["clear"], 2)
                server.add_affinity_thread_pool([], 2)
                self.seen = server.handlers
            def noop(self) -> str: return "OK"
        class B(A):
            def register_zmq_services(self, server):
                server.add_handler("noop", HandlerType.SYNC, lambda much: None)
        class C(A):
            register_zmq_services = 3
        class D(A):
            register_zmq_services = None
    """)  # fmt: skip
    host, bootstrap, rows = load(serve, "p26")
    for index in range(len(rows)):
        bootstrap.create(index)
    bootstrap.register_zmq(0)
    zmq = pytest.importorskip("zmq")
    instance = sys.modules["lmcache._units"].unit(0).module
    assert instance.ctx is zmq.Context.instance()
    assert host.calls[0][:2] == ("zmq", "noop") and host.calls[0][2][0] == "SYNC"
    assert host.calls[1][2][3] == 1 and host.pools == [(["clear"], 2, False)]
    assert not hasattr(instance.seen["noop"], "executor") and instance.seen["lookup"].executor == "normal"
    with pytest.raises(Exception, match="^Handler signature does not match for operation: noop$"):
        bootstrap.register_zmq(1)
    fails(serve, host, "C.register_zmq_services must be callable", lambda: bootstrap.register_zmq(2))
    bootstrap.register_zmq(3)


# ---- context ----


def test_the_context_calls_into_the_server(package, serve):
    package("pctx", "class A(Base):\nMODULE\n")
    host, bootstrap, _rows = load(serve, "pctx")
    context = bootstrap.create(0)["instance"].build_ctx.engine_context
    assert context.chunk_size == 4 and context.null_block_id == 0
    hashes = context.token_hasher.compute_chunk_hashes(range(14))
    assert len(hashes) == 3
    assert context.token_hasher.compute_chunk_hashes(list(range(14)), start=4, end=9) == hashes[1:2]
    assert context.token_hasher.hash_to_bytes(b"x") == b"x"
    session = context.session_manager.get_or_create("r")
    assert context.session_manager.get_or_create("r") is session
    session.set_tokens(list(range(8)))
    assert session.get_hashes(0, 4) == hashes[:1] and session.get_hashes(4) == hashes[1:2]
    session.set_tokens(list(range(14)))
    assert session.get_hashes() == hashes
    with pytest.raises(ValueError, match=r"^get_hashes end \(16\) exceeds the session's 14 token\(s\); the se"):
        session.get_hashes(0, 16)
    assert context.session_manager.get_or_create("known").get_hashes() == [b"a", b"b"]
    assert context.session_manager.active_count() == 3
    assert context.shm_pool_info == {"shm_name": "pool", "pool_size": 64}
    assert context.layout_desc_registry.find("m", 1).dtypes == ["torch.float16"]
    assert context.layout_desc_registry.find_attn_desc("m", 1).window_chunks == 2
    with pytest.raises(ValueError, match="No layout is registered for model 'x'"):
        context.layout_desc_registry.find_attn_desc("x", 1)
    key = bootstrap.message_types["cache_key"](
        {"model_name": "m", "world_size": 1, "worker_id": None, "token_ids": list(range(8)), "start": 0, "end": 8,
         "request_id": "r", "cache_salt": ""}
    )  # fmt: skip
    with pytest.raises(ValueError, match="^Must resolve keys with worker_id != None$"):
        context.resolve_obj_keys(key)
    key.__dict__["worker_id"] = 0
    assert [k.chunk_hash for k in context.resolve_obj_keys(key, [0])[0]] == hashes[:2]


def test_40_events_of_the_server_reach_callbacks(package, serve):
    package("p40", "class A(Base):\nMODULE\n")
    host, bootstrap, _rows = load(serve, "p40")
    bus = bootstrap.create(0)["instance"].build_ctx.engine_context.event_bus
    event = importlib.import_module("lmcache.v1.mp_observability.event")
    seen, shut = [], []
    bus.subscribe(event.EventType.MP_LOOKUP, seen.append)

    class Subscriber:
        def get_subscriptions(self):
            return {"own.event": seen.append}

        def shutdown(self):
            shut.append(1)

    bus.register_subscriber(Subscriber())
    bus.publish(event.Event("own.event", "s", {"n": 1}))
    host.subscriptions["mp.lookup"][0]("mp.lookup", "t", {}, 5.0)
    assert seen == [event.Event("own.event", "s", {"n": 1}, 12.5), event.Event(event.EventType.MP_LOOKUP, "t", {}, 5.0)]
    unheard = event.Event(event.EventType.MP_STORE_END)
    bus.publish(unheard)
    assert unheard.timestamp > 0 and bus.has_subscribers("own.event")
    bootstrap.stop_subscribers()
    assert shut == [1]


# ---- output, end ----


@pytest.fixture
def streams(monkeypatch):
    """setup() replaces what is put back here."""
    import logging
    import threading

    for owner, name in [(sys, "stdout"), (sys, "stderr"), (sys, "excepthook"), (sys, "unraisablehook"),
                        (threading, "excepthook")]:  # fmt: skip
        monkeypatch.setattr(owner, name, getattr(owner, name))
    handlers = list(logging.getLogger().handlers)
    yield
    logging.getLogger().handlers[:] = handlers


def test_36_output_and_uncaught_exceptions_go_to_the_log(serve, streams):
    import logging
    import threading

    host = FakeHost()
    bootstrap = serve(host)
    bootstrap.setup()
    print("one\ntwo", end="")
    sys.stdout.buffer.write(b" and\r\nthr\xffee")
    sys.stderr.write("wrong\n")
    print("x" * 200_000)
    logging.getLogger("third.party").warning("watch %s", "out")
    importlib.import_module("lmcache.logging").init_logger("a.plugin").info("from a plugin")
    thread = threading.Thread(target=lambda: 1 / 0, name="mine")
    thread.start()
    thread.join()
    bootstrap.finish(1.0)
    lines = [(level, message) for level, _name, message in host.lines]
    assert lines[:3] == [(20, "one"), (20, "two and"), (40, "wrong")]
    long = [message for _level, message in lines if message.startswith(("x", "thr"))]
    assert sum(map(len, long)) == 200_000 + len("thr\ufffdee")
    assert max(len(message) for _level, message in lines) <= 64 * 1024
    assert (30, "third.party", "watch out") in host.lines and (20, "a.plugin", "from a plugin") in host.lines
    assert "uncaught exception in thread mine" in host.text(40) and "ZeroDivisionError" in host.text(40)
    assert host.types["object_key"]({"chunk_hash": b"x", "model_name": "m", "kv_rank": 1, "more": 2}).kv_rank == 1


def test_39_a_thread_that_does_not_end_is_named_within_the_budget(serve, streams):
    import threading

    bootstrap = serve(FakeHost())
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="stays")
    thread.start()
    try:
        assert bootstrap.finish(0.05) == ["stays"]
    finally:
        release.set()
        thread.join()
    assert bootstrap.finish(5.0) == []


def test_an_exception_whose_text_fails_is_described(serve):
    bootstrap = serve(FakeHost())

    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no")

    text, lines = bootstrap.describe_exception(Odd())
    assert text == "Odd, whose text cannot be had (RuntimeError)" and lines
    assert bootstrap.describe_exception(ValueError("boom"))[0] == "boom"
