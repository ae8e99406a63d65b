"""The package lmcache in an ordinary interpreter: what offline tests of plugins rely on."""

import dataclasses
import importlib
import json
import logging
import os
import pathlib
import pickle
import subprocess
import sys

import pytest

PYTHON = pathlib.Path(__file__).resolve().parents[1]

# import path -> names, from the surface that plugins may import (MUST and SHOULD).
SURFACE = {
    "lmcache.logging": "init_logger",
    "lmcache.utils": "EngineType",
    "lmcache.v1.distributed.api": "ObjectKey MemoryLayoutDesc AttnWindowDesc DEFAULT_ATTN_WINDOW_DESC "
    "PrefetchHandle PrefetchRequestSpec ipc_key_to_object_keys",
    "lmcache.v1.distributed.config": "StorageManagerConfig",
    "lmcache.v1.distributed.storage_manager": "StorageManager",
    "lmcache.v1.distributed.transfer_channel.api": "TransferChannelAddress",
    "lmcache.v1.kv_format.types": "LayoutHints",
    "lmcache.v1.mp_observability.event": "Event EventType",
    "lmcache.v1.mp_observability.event_bus": "EventBus EventSubscriber EventBusConfig get_event_bus",
    "lmcache.v1.multiprocess.config": "MPServerConfig CoordinatorConfig RuntimePluginConfig P2PConfig "
    "HTTPFrontendConfig DEFAULT_COORDINATOR_CONFIG",
    "lmcache.v1.multiprocess.custom_types": "IPCCacheServerKey DeviceIPCWrapper BlockAllocationRecord "
    "PrepareStoreResponse PrepareRetrieveResponse RegisterEngineDrivenContextPayload "
    "RegisterEngineDrivenContextResponse SessionEndInfo NO_SESSION_END_INFO CBMatchResult CBUnifiedLookupResult",
    "lmcache.v1.multiprocess.engine_context": "MPCacheServerContext LayoutDescRegistry ShmPoolInfo",
    "lmcache.v1.multiprocess.engine_module": "DiscoverableModule ModuleBuildContext EngineModule "
    "InstanceLivenessTarget discover_modules order_modules",
    "lmcache.v1.multiprocess.ext_server_module": "server_module_handler ExtServerModuleSpec "
    "parse_server_module_specs ExtServerModuleRouter build_server_module_router iter_server_module_handlers "
    "register_grpc_services register_zmq_services ExtServerModuleBuildContext ExtServerModuleComponents "
    "load_server_module_components",
    "lmcache.v1.multiprocess.futures": "MessagingFuture",
    "lmcache.v1.multiprocess.group_view": "EngineGroupInfo",
    "lmcache.v1.multiprocess.modules.blend": "BlendModule",
    "lmcache.v1.multiprocess.modules.blend.module": "BlendModule",
    "lmcache.v1.multiprocess.modules.engine_driven_transfer": "EngineDrivenTransferModule",
    "lmcache.v1.multiprocess.modules.experimental.qstore": "QStoreModule",
    "lmcache.v1.multiprocess.modules.kv_events": "KVEventModule",
    "lmcache.v1.multiprocess.modules.lmcache_driven_transfer": "LMCacheDrivenTransferModule",
    "lmcache.v1.multiprocess.modules.lookup": "LookupModule",
    "lmcache.v1.multiprocess.modules.management": "ManagementModule",
    "lmcache.v1.multiprocess.modules.p2p_controller": "P2PController",
    "lmcache.v1.multiprocess.protocol": "HandlerType RequestType",
    "lmcache.v1.multiprocess.protocols.base": "HandlerType RequestType",
    "lmcache.v1.multiprocess.protocols.server_module": "ServerModuleCallRequest ServerModuleCallResponse",
    "lmcache.v1.multiprocess.request_handler": "request_handler HandlerType RequestHandlerOptions "
    "BoundRequestHandler iter_request_handlers get_request_handler_options",
    "lmcache.v1.multiprocess.rpc": "RpcOperation get_rpc_spec get_rpc_specs RpcSpec rpc_method",
    "lmcache.v1.multiprocess.server_module": "server_module_handler ServerModuleSpec ServerModuleBuildContext "
    "ServerModuleComponents parse_server_module_specs",
    "lmcache.v1.multiprocess.session": "SessionManager",
    "lmcache.v1.multiprocess.token_hasher": "TokenHasher",
    "lmcache.v1.periodic_thread": "create_periodic_thread PeriodicThread ThreadLevel ThreadRunSummary",
    "lmcache.v1.utils.json_utils": "safe_asdict make_json_safe",
    "lmcache.v1.utils.subclass_discovery": "discover_subclasses",
}


@pytest.mark.parametrize("path", sorted(SURFACE))
def test_35_every_name_of_the_surface_can_be_imported(path):
    module = importlib.import_module(path)
    for name in SURFACE[path].split():
        assert hasattr(module, name), f"{path}.{name}"


def test_35_importing_all_of_it_needs_neither_torch_nor_msgspec_nor_zmq():
    program = (
        "import sys, importlib\n"
        "for name in ('torch', 'vllm', 'msgspec', 'zmq', 'msgpack', 'numpy'): sys.modules[name] = None\n"
        f"for path in {sorted(SURFACE)!r}: importlib.import_module(path)\n"
        "assert '_lmcache_host' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(PYTHON)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_msgspec_that_has_not_what_is_needed_counts_as_none(tmp_path):
    (tmp_path / "msgspec.py").write_text("VERSION = '0.1'\n")
    program = (
        "from lmcache.v1.multiprocess.protocols.server_module import ServerModuleCallRequest as R\n"
        "import dataclasses; print(dataclasses.is_dataclass(R), R(method='a', payload=b'b').payload)"
    )
    environment = {**os.environ, "PYTHONPATH": f"{PYTHON}:{tmp_path}"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout == "True b'b'\n", done.stderr


def test_unlisted_modules_come_from_an_installed_lmcache(tmp_path):
    for folder in ("lmcache", "lmcache/v1", "lmcache/v1/multiprocess"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "lmcache/v1/multiprocess/of_the_other.py").write_text("HERE = 1\n")
    (tmp_path / "lmcache/v1/multiprocess/config.py").write_text("raise RuntimeError('the shim wins')\n")
    (tmp_path / "lmcache/utils.py").write_text("class EngineType: pass\nHELPER = 2\n")
    (tmp_path / "lmcache/v1/multiprocess/uses.py").write_text("from lmcache.utils import HELPER, EngineType\n")
    program = (
        "import lmcache.v1.multiprocess.of_the_other as a, lmcache.v1.multiprocess.config as b\n"
        "assert a.HERE == 1 and b.MPServerConfig\n"
        "import lmcache.v1.multiprocess.uses as c\n"
        "assert c.HELPER == 2 and c.EngineType.VLLM\n"
        "import lmcache.utils\n"
        "assert not hasattr(lmcache.utils, 'NOWHERE')\n"
    )
    path = os.pathsep.join([str(PYTHON), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


# ---- outside the server ----


def test_an_operation_outside_the_server_raises_one_clear_error():
    from lmcache._bridge import OutsideServerError
    from lmcache.v1.multiprocess.modules.lookup import LookupModule
    from lmcache.v1.multiprocess.token_hasher import TokenHasher

    with pytest.raises(OutsideServerError, match="LookupModule.noted works only inside lmcached"):
        LookupModule()._call("noted")
    with pytest.raises(OutsideServerError, match="hashing tokens works only inside lmcached"):
        TokenHasher(4).compute_chunk_hashes([1, 2, 3, 4])


# ---- decorators ----


def test_a_handler_needs_blocking_for_affinity():
    from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler

    with pytest.raises(ValueError, match="^Client affinity requires HandlerType.BLOCKING$"):
        request_handler(HandlerType.SYNC, requires_client_affinity=True)
    request_handler(HandlerType.BLOCKING, requires_client_affinity=True)


def test_handlers_are_inherited_and_an_override_without_the_decorator_removes_one():
    from lmcache.v1.multiprocess.request_handler import iter_request_handlers, request_handler

    class Base:
        @request_handler()
        def noop(self) -> str:
            return "OK"

        @request_handler(operation="ping")
        def answer(self, instance_id: int) -> bool:
            return True

    class Derived(Base):
        def noop(self) -> str:
            return "mine"

    assert [bound.operation for bound in iter_request_handlers(Base())] == ["noop", "ping"]
    assert [bound.operation for bound in iter_request_handlers(Derived())] == ["ping"]
    assert iter_request_handlers(Base())[0].handler() == "OK"


def test_two_methods_for_one_operation_are_refused():
    from lmcache.v1.multiprocess.request_handler import iter_request_handlers, request_handler

    class Twice:
        @request_handler(operation="noop")
        def one(self) -> str:
            return ""

        @request_handler(operation="noop")
        def two(self) -> str:
            return ""

    with pytest.raises(ValueError, match="^Twice has multiple handlers for 'noop'$"):
        iter_request_handlers(Twice())


@pytest.mark.parametrize("method", ["noname", "", None])
def test_23_a_method_without_a_namespace_fails_while_the_class_body_runs(method):
    from lmcache.v1.multiprocess.ext_server_module import server_module_handler

    with pytest.raises(ValueError, match="^server module handler method must be namespaced$"):
        server_module_handler(method)


@pytest.mark.parametrize("method", ["a.", ".b", "a.b.c"])
def test_23_no_other_syntax_is_checked(method):
    from lmcache.v1.multiprocess.ext_server_module import server_module_handler

    server_module_handler(method)


def test_envelope_methods_are_found_in_every_kind_of_method_and_sorted():
    from lmcache.v1.multiprocess.ext_server_module import iter_server_module_handlers, server_module_handler

    class Base:
        @server_module_handler("z.inherited")
        def inherited(self, payload):
            return payload

    class Module(Base):
        @staticmethod
        @server_module_handler("b.static")
        def one(payload):
            return payload

        @classmethod
        @server_module_handler("a.of_class")
        def two(cls, payload):
            return payload

        @server_module_handler("c.outer")
        @server_module_handler("c.inner")
        def three(self, payload):
            return payload

    found = iter_server_module_handlers(Module())
    assert [bound.method for bound in found] == ["a.of_class", "b.static", "c.outer", "z.inherited"]
    assert all(bound.handler(b"x") == b"x" for bound in found)


def test_envelope_metadata_of_the_wrong_type_is_refused():
    from lmcache.v1.multiprocess.ext_server_module import iter_server_module_handlers

    class Module:
        def odd(self, payload):
            return payload

    Module.odd.__lmcache_server_module_handler__ = "a.b"
    with pytest.raises(TypeError, match="^Module.odd has invalid server-module handler metadata$"):
        iter_server_module_handlers(Module())


def test_22_two_methods_of_one_name_are_refused():
    from lmcache.v1.multiprocess.ext_server_module import build_server_module_router, server_module_handler

    def module():
        class Module:
            @server_module_handler("a.b")
            def handle(self, payload):
                return payload

        return Module()

    with pytest.raises(ValueError, match="^duplicate server module method: a.b$"):
        build_server_module_router([module(), module()])


def test_19_and_21_the_router_answers_every_call():
    from lmcache.v1.multiprocess.ext_server_module import build_server_module_router, server_module_handler
    from lmcache.v1.multiprocess.protocols.server_module import ServerModuleCallRequest

    class Module:
        @server_module_handler("fake.echo")
        def echo(self, payload):
            return b"echo:" + payload

        @server_module_handler("fake.fail")
        def fail(self, payload):
            raise ValueError("boom")

        @server_module_handler("fake.exit")
        def exit(self, payload):
            raise SystemExit(3)

        @server_module_handler("fake.text")
        def text(self, payload):
            return "text"

        @server_module_handler("fake.view")
        def view(self, payload):
            return memoryview(payload)

        @server_module_handler("fake.later")
        async def later(self, payload):
            return payload

    router = build_server_module_router([Module()])

    def call(method):
        answer = router.server_module_call(ServerModuleCallRequest(method, b"hello"))
        return answer.success, answer.payload, answer.error

    assert call("fake.echo") == (True, b"echo:hello", "")
    assert call("fake.view") == (True, b"hello", "")
    assert call("fake.missing") == (False, b"", "unknown server module method: fake.missing")
    assert call("fake.fail") == (False, b"", "boom")
    assert call("fake.exit") == (False, b"", "3")
    assert call("fake.text") == (False, b"", "server module method fake.text returned str, expected bytes")
    assert call("fake.later") == (
        False, b"", "server module method fake.later returned coroutine, expected bytes",
    )  # fmt: skip
    assert router.report_status()["server_module_plugins"]["methods"] == sorted(router.methods)


# ---- specs, factories ----


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "--server-module must be valid JSON: "),
        ("", "--server-module must be valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ('"x"', "--server-module entries must be JSON objects"),
        ("[[]]", "--server-module entries must be JSON objects"),
        ("{}", "server module module_path must be a non-empty string"),
        ('{"module_path": ""}', "server module module_path must be a non-empty string"),
        ('{"module_path": "a", "factory_name": ""}', "server module factory_name must be a non-empty string"),
        ('{"module_path": "a", "config": null}', "server module config must be a JSON object"),
    ],
)
def test_a_wrong_spec_has_its_exact_text(text, message):
    from lmcache.v1.multiprocess.ext_server_module import parse_server_module_specs

    with pytest.raises(ValueError) as failure:
        parse_server_module_specs([text])
    assert str(failure.value).startswith(message)


def test_specs_keep_their_order_and_ignore_unknown_members():
    from lmcache.v1.multiprocess.ext_server_module import parse_server_module_specs

    specs = parse_server_module_specs(
        ['{"module_path": "a.b", "config": {"x": 1}, "else": 2}', '[{"module_path": "c"}, {"module_path": "d"}]', "[]"]
    )
    assert [spec.module_path for spec in specs] == ["a.b", "c", "d"]
    assert specs[0].config == {"x": 1} and specs[1].config == {}
    assert specs[0].factory_name == "build_server_modules"


def test_factory_results_of_every_form_are_accepted_and_others_refused():
    from lmcache.v1.multiprocess.ext_server_module import ExtServerModuleComponents, components_of

    class Module:
        context = None

        def report_status(self):
            return {}

        def close(self):
            return None

    one, two = Module(), Module()
    assert components_of(None, "p.f").modules == ()
    assert components_of(one, "p.f").modules == [one]
    assert components_of((one, two), "p.f").modules == [one, two]
    registrar = lambda server: None  # noqa: E731
    both = components_of(ExtServerModuleComponents([one], [], [registrar]), "p.f")
    assert both.modules == [one] and both.zmq_service_registrars == [registrar]
    for wrong, text in [
        (3, "server module factory p.f must return an EngineModule, a sequence of EngineModule, or None"),
        ([3], "server module factory p.f returned a sequence containing a non-EngineModule value: 3"),
        (
            ExtServerModuleComponents([], [], [3]),
            "server module factory p.f returned zmq_service_registrars containing a non-callable value: 3",
        ),
        (
            ExtServerModuleComponents([], [3], []),
            "server module factory p.f returned grpc_service_registrars containing a non-callable value: 3",
        ),
    ]:
        with pytest.raises(TypeError) as failure:
            components_of(wrong, "p.f")
        assert str(failure.value) == text


def test_28_a_registrar_that_is_not_callable_is_refused_and_one_is_called_once():
    from lmcache.v1.multiprocess.ext_server_module import register_zmq_services

    calls = []

    class Module:
        def register_zmq_services(self, server):
            calls.append(server)

    module = Module()
    register_zmq_services("server", [module], [module.register_zmq_services])
    assert calls == ["server"]
    Module.register_zmq_services = 3
    with pytest.raises(TypeError, match="^Module.register_zmq_services must be callable$"):
        register_zmq_services("server", [Module()])


# ---- graph ----


def test_dependencies_come_first_and_deferred_classes_last():
    from lmcache.v1.multiprocess.engine_module import DiscoverableModule, order_modules

    class Module(DiscoverableModule):
        @classmethod
        def create(cls, build_ctx):
            return cls()

    class Last(Module):
        deferred = True

    class A(Module):
        module_name = "first"

    class B(Module):
        module_dependencies = [A]

    class C(Module):
        dependencies = ("first",)

    assert order_modules([Last, C, B, A]) == [A, C, B, Last]
    A.module_dependencies = [B]
    with pytest.raises(ValueError, match="^Module dependency cycle among: A, B$"):
        order_modules([A, B, C])
    A.module_dependencies = [3]
    with pytest.raises(TypeError, match="^A has an invalid dependency: 3$"):
        order_modules([A])
    A.module_dependencies = [Last]
    with pytest.raises(ValueError, match="^A depends on Last, which is not a discoverable module"):
        order_modules([A])
    A.module_dependencies = ["mistyped"]
    with pytest.raises(ValueError, match="^A depends on 'mistyped', .*check the module_name spelling"):
        order_modules([A])


def test_require_names_what_is_built():
    from lmcache.v1.multiprocess.engine_module import ModuleBuildContext

    class A:
        module_name = "first"

    class B:
        pass

    context = ModuleBuildContext()
    one = A()
    context.register(one)
    assert context.require(A) is one and context.require("first", A) is one and context.require("A", A) is one
    assert context.module_names == ["first"] and context.built == [one]
    with pytest.raises(ValueError, match=r"^Module 'B' is not built yet; built so far: \['first'\]$"):
        context.require(B)
    with pytest.raises(ValueError, match="^Module 'first' is a A, not a B$"):
        context.require("first", B)


def test_config_for_a_class_that_no_spec_brought_is_always_the_same_empty_dict():
    from lmcache.v1.multiprocess.engine_module import ModuleBuildContext

    class A:
        pass

    config = {"x": 1}
    context = ModuleBuildContext(configs={A: config})
    assert context.config_for(A) is config and context.config_for(A()) is config
    assert context.config_for(int) == {} and context.config_for(int) is context.config_for(int)


# ---- annotations ----


def check(handler, operation):
    from lmcache._contracts import check_annotations
    from lmcache.v1.multiprocess.rpc import get_rpc_spec

    return check_annotations(get_rpc_spec(operation), handler)


def test_17_every_spelling_of_the_right_types_is_accepted():
    from typing import List, Optional, Tuple, Union

    from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey

    def store(
        key: "IPCCacheServerKey", instance_id: int, block_ids: List[List[int]], handle: bytes
    ) -> Tuple[bytes, bool]:
        return b"", False

    def end_session(request_id: str) -> None: ...
    def clear() -> None: ...
    def ping(instance_id: Union[None, int]) -> bool: ...
    def query(request_id: str) -> Optional[int]: ...

    store.__globals__["IPCCacheServerKey"] = IPCCacheServerKey
    check(store, "store")
    check(end_session, "end_session")
    check(clear, "clear")
    check(ping, "ping")
    check(query, "query_prefetch_lookup_hits")
    if sys.version_info >= (3, 10):
        namespace = {"IPCCacheServerKey": IPCCacheServerKey}
        exec(
            "def store(self, key: IPCCacheServerKey, i: int, b: list[list[int]], h: bytes) -> tuple[bytes, bool]: ...\n"
            "class M: store = store\n"
            "def ping(instance_id: int | None) -> bool: ...\n",
            namespace,
        )
        check(namespace["M"]().store, "store")
        check(namespace["ping"], "ping")


def test_17_wrong_annotations_are_refused_with_both_lists_of_types():
    def lookup(key: str, tp_size: int) -> None: ...
    def noop() -> int: ...
    def bare(request_id): ...
    def lost(key: "Nowhere", tp_size: int) -> None: ...  # noqa: F821

    for handler, operation, text in [
        (
            lookup, "lookup",
            "lookup payload annotations (str, int) do not match RPC 'lookup' types (IPCCacheServerKey, int)",
        ),
        (noop, "noop", "noop return annotation int does not match RPC 'noop' type str"),
        (
            bare, "end_session",
            "bare payload annotations (<none>) do not match RPC 'end_session' types (str, SessionEndInfo)",
        ),
        (lost, "lookup", "lost annotations cannot be resolved: name 'Nowhere' is not defined"),
    ]:
        with pytest.raises(TypeError) as failure:
            check(handler, operation)
        where = handler.__qualname__
        assert str(failure.value) == f"Handler {where.rpartition('.')[0]}.{text}"


# ---- messages, configuration, the rest ----


def test_keys_are_equal_when_they_name_the_same_chunks():
    from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey

    key = IPCCacheServerKey("m", 1, 0, [1, 2], 0, 2, "r")
    other = dataclasses.replace(key, request_id="s", num_kv_readers=3, token_ids=(1, 2))
    assert key == other and hash(key) == hash(other)
    assert key != dataclasses.replace(key, cache_salt="x")
    assert key.no_worker_id_version().worker_id is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        key.start = 3


def test_messages_are_built_compared_and_pickled():
    from lmcache.v1.multiprocess.custom_types import RegisterEngineDrivenContextPayload, SessionEndInfo
    from lmcache.v1.multiprocess.protocols.server_module import ServerModuleCallRequest

    request = ServerModuleCallRequest(method="a.b", payload=b"x")
    assert request == ServerModuleCallRequest("a.b", b"x") != ServerModuleCallRequest("a.b", b"y")
    assert pickle.loads(pickle.dumps(request)) == request
    one = RegisterEngineDrivenContextPayload(1, "m", 1, 16, 2, 8, "float16", False)
    other = RegisterEngineDrivenContextPayload(1, "m", 1, 16, 2, 8, "float16", False)
    one.engine_group_infos.append(3)
    assert other.engine_group_infos == []
    assert {SessionEndInfo("stop"): 1}[SessionEndInfo("stop")] == 1


def test_object_keys_of_a_key_cover_every_rank():
    from lmcache.v1.distributed.api import ipc_key_to_object_keys
    from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey

    key = IPCCacheServerKey("m", 2, None, [1] * 8, 0, 8, "r", "salt")
    groups = ipc_key_to_object_keys(key, [b"a", b"b"], (0, 1))
    assert [[k.object_group_id for k in group] for group in groups] == [[0] * 4, [1] * 4]
    assert [(k.chunk_hash, k.worker_id) for k in groups[0]] == [(b"a", 0), (b"a", 1), (b"b", 0), (b"b", 1)]
    assert groups[0][1].kv_rank == 2 << 24 | 1 << 16 | 2 << 8 | 1


def test_a_runtime_plugin_reads_its_servers_configuration(tmp_path):
    from lmcache.v1.multiprocess.config import read_runtime_plugin_config

    sections = {
        "mp_config": {
            "host": "h", "port": 7, "p2p_config": {"advertise_url": "u"}, "new_member": 1,
            "server_modules": [{"module_path": "a.b", "config": {"x": 1}}],
        },
        "storage_manager_config": {
            "l1_manager_config": {"memory_config": {"size_in_bytes": 5}}, "l1_manager_configs": [{"tag": "t"}],
        },
        "obs_config": {"enabled": True},
        "http_config": {"http_port": 9},
    }  # fmt: skip
    config = read_runtime_plugin_config({"LMCACHE_RUNTIME_PLUGIN_CONFIG": json.dumps(sections)})
    assert (config.mp_config.host, config.mp_config.port, config.mp_config.chunk_size) == ("h", 7, 256)
    assert config.mp_config.p2p_config.enabled and config.mp_config.p2p_config.effective_listen_url == "u"
    assert config.mp_config.server_modules[0].config == {"x": 1}
    assert config.storage_manager_config.l1_manager_config.memory_config.size_in_bytes == 5
    assert config.storage_manager_config.l1_manager_configs[0].tag == "t"
    assert config.http_config.http_port == 9
    with pytest.raises(AttributeError):
        config.mp_config.new_member
    assert dataclasses.asdict(config.mp_config)["runtime_plugin_config"] == {"locations": [], "extra_config": {}}
    (tmp_path / "config.json").write_text(json.dumps(sections))
    again = read_runtime_plugin_config({"LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE": str(tmp_path / "config.json")})
    assert again == config
    with pytest.raises(RuntimeError, match="LMCACHE_RUNTIME_PLUGIN_CONFIG is not set"):
        read_runtime_plugin_config({})


def test_a_bus_of_this_process_delivers_in_order_past_a_callback_that_raises(capsys):
    from lmcache.v1.mp_observability.event import Event, EventType
    from lmcache.v1.mp_observability.event_bus import EventBus, EventSubscriber

    seen = []

    class Subscriber(EventSubscriber):
        def get_subscriptions(self):
            return {EventType.MP_LOOKUP: seen.append, "mine.done": seen.append}

        def shutdown(self):
            seen.append("shut")

    def fails(event):
        raise ValueError("no")

    bus = EventBus()
    bus.subscribe(EventType.MP_LOOKUP, fails)
    bus.register_subscriber(Subscriber())
    assert bus.has_subscribers("mp.lookup") and not bus.has_subscribers(EventType.MP_STORE_END)
    events = [Event(EventType.MP_LOOKUP, "s", {"n": 1}), Event("mine.done")]
    for event in events:
        bus.publish(event)
        assert event.timestamp > 0
    bus.stop()
    assert seen == [*events, "shut"]
    assert "ValueError: no" in capsys.readouterr().err


def test_a_periodic_thread_goes_on_after_a_round_that_raises(capsys):
    import threading

    from lmcache.v1.periodic_thread import ThreadLevel, ThreadRunSummary, create_periodic_thread

    rounds, done = [], threading.Event()

    def work():
        rounds.append(1)
        if len(rounds) == 1:
            raise ValueError("first")
        done.set()
        return ThreadRunSummary(True, "fine")

    thread = create_periodic_thread("worker", 0.001, work, ThreadLevel.LOW)
    thread.start()
    assert done.wait(10)
    assert thread.stop()
    assert thread.failed_runs == 1 and thread.last_summary.message == "fine"
    assert thread.get_status()["is_running"] is False


def test_a_future_gives_its_result_to_whoever_asks():
    from lmcache.v1.multiprocess.futures import MessagingFuture

    future, seen = MessagingFuture(), []
    future.add_done_callback(lambda done: seen.append(done.result()))
    assert not future.query()
    with pytest.raises(TimeoutError):
        future.result(timeout=0)
    future.set_result(3)
    future.set_exception(ValueError())
    future.add_done_callback(lambda done: seen.append(done.result()))
    assert future.query() and future.result(1) == 3 and seen == [3, 3]


def test_values_are_made_safe_for_json():
    from lmcache.v1.multiprocess.config import P2PConfig
    from lmcache.v1.utils.json_utils import make_json_safe, safe_asdict

    assert make_json_safe({1: (float("nan"), pathlib.Path("/x"))}) == {"1": [None, "/x"]}
    assert safe_asdict(P2PConfig())["transfer_engine"] == "nixl"


def test_36_a_logger_writes_the_servers_format(capsys):
    from lmcache.logging import init_logger

    logger = init_logger("some.plugin")
    assert init_logger("some.plugin") is logger and len(logger.handlers) == 1
    logger.info("hello %d", 3)
    line = capsys.readouterr().err
    assert " LMCache INFO: hello 3 (test_lmcache_api.py:" in line and line.endswith(":some.plugin)\n")
    assert isinstance(logger, logging.Logger)
