"""The whole surface of the compatibility package inside a running server: every name that packages import,
every member of the shared context, every field of the configuration, with real values behind them."""

import inspect
import json

import pytest

from python_house import Plugins, envelope, flags, needs_host

pytestmark = needs_host

NAMES = {
    "lmcache.logging": "init_logger",
    "lmcache.utils": "EngineType",
    "lmcache.v1.multiprocess.engine_module": "DiscoverableModule ModuleBuildContext EngineModule InstanceLivenessTarget "
    "discover_modules order_modules",
    "lmcache.v1.multiprocess.ext_server_module": "server_module_handler ExtServerModuleSpec parse_server_module_specs "
    "ExtServerModuleRouter build_server_module_router iter_server_module_handlers register_grpc_services "
    "register_zmq_services ExtServerModuleBuildContext ExtServerModuleComponents load_server_module_components",
    "lmcache.v1.multiprocess.server_module": "server_module_handler ServerModuleSpec parse_server_module_specs "
    "ServerModuleRouter build_server_module_router iter_server_module_handlers register_grpc_services "
    "register_zmq_services ServerModuleBuildContext ServerModuleComponents load_server_module_components",
    "lmcache.v1.multiprocess.request_handler": "request_handler HandlerType RequestHandlerOptions BoundRequestHandler "
    "iter_request_handlers get_request_handler_options",
    "lmcache.v1.multiprocess.protocols.server_module": "ServerModuleCallRequest ServerModuleCallResponse",
    "lmcache.v1.multiprocess.protocols.base": "HandlerType RequestType",
    "lmcache.v1.multiprocess.protocol": "HandlerType RequestType",
    "lmcache.v1.multiprocess.engine_context": "MPCacheServerContext LayoutDescRegistry ShmPoolInfo",
    "lmcache.v1.multiprocess.config": "MPServerConfig CoordinatorConfig RuntimePluginConfig P2PConfig HTTPFrontendConfig "
    "DEFAULT_COORDINATOR_CONFIG",
    "lmcache.v1.multiprocess.modules.lookup": "LookupModule",
    "lmcache.v1.multiprocess.modules.p2p_controller": "P2PController",
    "lmcache.v1.multiprocess.modules.lmcache_driven_transfer": "LMCacheDrivenTransferModule",
    "lmcache.v1.multiprocess.modules.engine_driven_transfer": "EngineDrivenTransferModule",
    "lmcache.v1.multiprocess.modules.experimental.qstore": "QStoreModule",
    "lmcache.v1.multiprocess.modules.blend": "BlendModule",
    "lmcache.v1.multiprocess.modules.blend.module": "BlendModule",
    "lmcache.v1.multiprocess.modules.kv_events": "KVEventModule",
    "lmcache.v1.multiprocess.modules.management": "ManagementModule",
    "lmcache.v1.multiprocess.custom_types": "IPCCacheServerKey DeviceIPCWrapper BlockAllocationRecord PrepareStoreResponse "
    "PrepareRetrieveResponse RegisterEngineDrivenContextPayload RegisterEngineDrivenContextResponse SessionEndInfo "
    "NO_SESSION_END_INFO CBMatchResult CBUnifiedLookupResult",
    "lmcache.v1.multiprocess.group_view": "EngineGroupInfo",
    "lmcache.v1.multiprocess.rpc": "RpcOperation get_rpc_spec get_rpc_specs RpcSpec rpc_method",
    "lmcache.v1.multiprocess.futures": "MessagingFuture",
    "lmcache.v1.multiprocess.token_hasher": "TokenHasher",
    "lmcache.v1.multiprocess.session": "SessionManager",
    "lmcache.v1.distributed.api": "ObjectKey MemoryLayoutDesc AttnWindowDesc DEFAULT_ATTN_WINDOW_DESC PrefetchHandle "
    "PrefetchRequestSpec ipc_key_to_object_keys",
    "lmcache.v1.distributed.storage_manager": "StorageManager",
    "lmcache.v1.distributed.config": "StorageManagerConfig",
    "lmcache.v1.distributed.transfer_channel.api": "TransferChannelAddress",
    "lmcache.v1.kv_format.types": "LayoutHints",
    "lmcache.v1.mp_observability.event": "Event EventType",
    "lmcache.v1.mp_observability.event_bus": "EventBus EventSubscriber EventBusConfig get_event_bus",
    "lmcache.v1.periodic_thread": "create_periodic_thread PeriodicThread ThreadLevel ThreadRunSummary",
    "lmcache.v1.utils.json_utils": "safe_asdict make_json_safe",
    "lmcache.v1.utils.subclass_discovery": "discover_subclasses",
}

CONTEXT = {
    "": "chunk_size token_hasher session_manager event_bus storage_manager layout_desc_registry shm_pool_info null_block_id "
    "separate_object_groups full_sw_kv resolve_obj_keys",
    "token_hasher": "compute_chunk_hashes hash_to_bytes chunk_size hash_algorithm_name",
    "session_manager": "get_or_create active_count",
    "event_bus": "publish subscribe register_subscriber has_subscribers",
    "storage_manager": "report_status clear memcheck submit_prefetch_task query_prefetch_status query_prefetch_lookup_hits "
    "finish_read_prefetched unsafe_read register_l2_listener l1_memory_desc",
    "layout_desc_registry": "register unregister find find_group_layout_descs find_attn_desc",
}

BUILD = (
    "engine_context mp_config coordinator_config liveness_targets built module_names require register add_liveness_target config_for"
)
MP = (
    "host port chunk_size max_workers max_gpu_workers max_cpu_workers hash_algorithm engine_type supported_transfer_mode "
    "separate_object_groups enable_segmented_prefix runtime_plugin_config p2p_config shm_name script_allowed_imports instance_id "
    "worker_reap_timeout_seconds worker_registration_grace_seconds enable server_modules transport isolated_ipc null_block_id "
    "session_ttl_seconds runtime_plugin_config.locations runtime_plugin_config.extra_config p2p_config.advertise_url "
    "p2p_config.listen_url p2p_config.lookup_timeout p2p_config.load_timeout p2p_config.transfer_engine p2p_config.enabled "
    "p2p_config.effective_listen_url"
)
COORDINATOR = "url advertise_ip heartbeat_interval event_reporting event_flush_interval"

MODULE = """
    import dataclasses, importlib, json, operator, sys
    from lmcache.v1.distributed.api import ObjectKey
    from lmcache.v1.mp_observability.event import Event
    from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey
    from lmcache.v1.multiprocess.modules.lookup import LookupModule

    TABLE = json.loads({table!r})

    class Surface(Base):
        def missing(self, whole, names, where=""):
            lacking = []
            for name in names.split():
                try:
                    operator.attrgetter(name)(whole)
                except AttributeError:
                    lacking.append(where + name)
            return lacking

        @server_module_handler("surface.missing")
        def look(self, payload: bytes) -> bytes:
            found = []
            for path, names in TABLE["names"].items():
                found += self.missing(importlib.import_module(path), names, path + ".")
            for part, names in TABLE["context"].items():
                found += self.missing(operator.attrgetter(part)(self.context) if part else self.context, names, part + ".")
            found += self.missing(self.build_ctx, TABLE["build"], "build_ctx.")
            found += self.missing(self.build_ctx.mp_config, TABLE["mp"], "mp_config.")
            found += self.missing(self.build_ctx.coordinator_config, TABLE["coordinator"], "coordinator_config.")
            found += [name for name in ("torch", "msgspec", "vllm") if name in sys.modules]
            return json.dumps(found).encode()

        @server_module_handler("surface.config")
        def config_seen(self, payload: bytes) -> bytes:
            try:
                self.build_ctx.mp_config.no_such_thing
            except AttributeError:
                pass
            return json.dumps([dataclasses.asdict(self.build_ctx.mp_config), dataclasses.asdict(self.build_ctx.coordinator_config)]).encode()

        @server_module_handler("surface.values")
        def values(self, payload: bytes) -> bytes:
            context, seen = self.context, {{}}
            hasher = context.token_hasher
            hashes = hasher.compute_chunk_hashes(list(range(12)), start=4, end=8)
            seen["hash"] = [len(hashes), len(hasher.hash_to_bytes(hashes[0])), hasher.chunk_size, hasher.hash_algorithm_name]
            try:
                type(hasher)(hasher.chunk_size * 2).compute_chunk_hashes([1])
            except ValueError as failure:
                seen["other"] = str(failure)
            key = IPCCacheServerKey("m", 2, 1, list(range(8)), 0, 8, "r")
            rows = context.resolve_obj_keys(key, [0, 1])
            seen["keys"] = [len(rows), len(rows[0]), type(rows[0][0]).__name__, rows[1][0].object_group_id, rows[0][0].worker_id]
            try:
                context.resolve_obj_keys(key.no_worker_id_version(), [0])
            except ValueError as failure:
                seen["no worker"] = str(failure)
            registry = context.layout_desc_registry
            registry.register("made", 1, "layout")
            registry.register("made", 1, "layout")
            registry.unregister("made", 1)
            seen["layout"] = [registry.find("made", 1), registry.find_group_layout_descs("made", 1), registry.find("none", 1)]
            registry.unregister("made", 1)
            seen["layout"].append(registry.find("made", 1))
            try:
                registry.find_attn_desc("made", 1)
            except ValueError as failure:
                seen["no attention"] = str(failure)
            session = context.session_manager.get_or_create("other")
            session.set_tokens(list(range(9)))
            seen["session"] = [len(session.get_hashes(0, 8)), session.lookup_ipc_key, context.session_manager.active_count()]
            event = Event("nobody.listens")
            context.event_bus.publish(event)
            seen["event"] = [event.session_id, event.metadata, event.timestamp > 1e9, context.event_bus.has_subscribers("nobody.listens")]
            seen["shm"] = dict(context.shm_pool_info)
            seen["flags"] = [context.null_block_id, context.separate_object_groups, context.full_sw_kv]
            seen["built"] = [type(self.build_ctx.require(LookupModule)).__name__, self.build_ctx.module_names,
                             [type(one).__name__ for one in self.build_ctx.built]]
            return json.dumps(seen).encode()
"""


@pytest.fixture
def surface(server, tmp_path):
    (tmp_path / "plugins").mkdir()
    plugins = Plugins(tmp_path / "plugins")
    table = {"names": NAMES, "context": CONTEXT, "build": BUILD, "mp": MP, "coordinator": COORDINATOR}
    plugins.write("surface", inspect.cleandoc("    " + MODULE.strip("\n").format(table=json.dumps(table)).lstrip()))

    def start(*more, **options):
        one = server(*flags("surface"), *more, environment=plugins.environment, **options)
        client = one.client()

        def ask(method):
            success, payload, error = envelope(client, method)
            assert success, error
            return json.loads(payload)

        return one, ask

    return start


def test_35_every_name_and_member_is_there_without_torch(surface):
    _one, ask = surface()
    assert ask("surface.missing") == []


def test_the_configuration_of_modules_is_the_servers(surface):
    more = ["--max-workers", "3", "--worker-reap-timeout-seconds", "40", "--worker-registration-grace-seconds", "50",
            "--instance-id", "me", "--runtime-plugin-config", '{"a": {"password": "x"}}']  # fmt: skip
    one, ask = surface(*more)
    mp, coordinator = ask("surface.config")
    shown = one.get("/config").json
    assert mp["max_workers"] == 3 and mp["instance_id"] == "me" and mp["hash_algorithm"] == "blake3"
    assert mp["worker_reap_timeout_seconds"] == 40 and mp["session_ttl_seconds"] == 600.0
    assert mp["runtime_plugin_config"]["extra_config"] == {"a": {"password": "x"}}
    assert mp["server_modules"] == [{"module_path": "surface", "config": {}, "factory_name": "build_server_modules"}]
    for name, value in shown["mp"].items():
        if name in mp and name not in ("runtime_plugin_config", "server_modules", "p2p_config"):
            assert mp[name] == value, name
    assert {name: coordinator[name] for name in COORDINATOR.split()} == {
        name: shown["coordinator"][name] for name in COORDINATOR.split()
    }


@pytest.mark.parametrize("shm", [False, True])
def test_members_of_the_context_have_real_values(surface, shm):
    one, ask = surface(shm=shm)
    seen = ask("surface.values")
    assert seen["hash"] == [1, 32, 4, "blake3"]
    assert seen["other"] == "a hasher for chunks of 8 tokens: this server's have 4"
    assert seen["keys"] == [2, 2, "ObjectKey", 1, 1]
    assert seen["no worker"] == "Must resolve keys with worker_id != None"
    assert seen["layout"] == ["layout", {"0": "layout"}, None, None]
    assert "made" in seen["no attention"]
    assert seen["session"] == [2, None, 0]
    assert seen["event"] == ["", {}, True, False]
    name = one.flags[one.flags.index("--shm-name") + 1] if shm else ""
    assert (name in seen["shm"]["shm_name"] and seen["shm"]["pool_size"] == 1 << 26) if shm else seen["shm"] == {"shm_name": "", "pool_size": 0}
    assert seen["flags"] == [0, False, False]
    assert seen["built"][0] == "LookupModule" and seen["built"][1] == sorted(seen["built"][2])
    assert seen["built"][2][0] == "LookupModule" and seen["built"][2][-1] == "ManagementModule"


def test_modules_that_are_not_built_are_legal_dependencies(server, tmp_path):
    (tmp_path / "plugins").mkdir()
    plugins = Plugins(tmp_path / "plugins")
    plugins.write(
        "needs",
        """
        from lmcache.v1.multiprocess.modules.blend import BlendModule
        from lmcache.v1.multiprocess.modules.experimental.qstore import QStoreModule
        from lmcache.v1.multiprocess.modules.kv_events import KVEventModule
        from lmcache.v1.multiprocess.modules.lmcache_driven_transfer import LMCacheDrivenTransferModule
        class Needs(Base):
            module_dependencies = [BlendModule, QStoreModule, KVEventModule, LMCacheDrivenTransferModule, "p2p_controller", "management"]
            @classmethod
            def create(cls, build_ctx):
                self = cls(build_ctx)
                self.failures = []
                for wanted in (BlendModule, QStoreModule, KVEventModule):
                    try:
                        build_ctx.require(wanted)
                    except ValueError as failure:
                        self.failures.append(str(failure).partition(";")[0])
                return self
            def report_status(self):
                return {"needs": self.failures}
        """,
    )
    one = server(*flags("needs"), environment=plugins.environment)
    assert one.status()["needs"] == [f"Module '{name}' is not built yet" for name in ("BlendModule", "QStoreModule", "KVEventModule")]
    assert "Needs(dependencies=[BlendModule, QStoreModule, KVEventModule, LMCacheDrivenTransferModule, P2PController, ManagementModule])" in one.log()
