"""Plugin code tested without a server, as docs/python-modules.md says."""

from lmcache.v1.mp_observability.event import Event
from lmcache.v1.multiprocess.config import MPServerConfig
from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey
from lmcache.v1.multiprocess.engine_context import MPCacheServerContext
from lmcache.v1.multiprocess.engine_module import DiscoverableModule, InstanceLivenessTarget, ModuleBuildContext
from lmcache.v1.multiprocess.ext_server_module import (
    build_server_module_router,
    iter_server_module_handlers,
    server_module_handler,
)
from lmcache.v1.multiprocess.modules.lookup import LookupModule
from lmcache.v1.multiprocess.protocols.server_module import ServerModuleCallRequest
from lmcache.v1.multiprocess.request_handler import HandlerType, iter_request_handlers, request_handler


class FakeLookups(LookupModule):
    def __init__(self):
        super().__init__()
        self.keys = []

    def lookup(self, key, tp_size):
        self.keys.append(key)


class MyServerModule(DiscoverableModule):
    module_dependencies = [LookupModule]

    def __init__(self, build_ctx):
        self.context = build_ctx.engine_context
        self.config = build_ctx.config_for(type(self))
        self.lookups = build_ctx.require(LookupModule)
        self.seen = []
        self.context.event_bus.subscribe("my.event", self.seen.append)

    @classmethod
    def create(cls, build_ctx):
        return cls(build_ctx)

    @request_handler(HandlerType.BLOCKING)
    def lookup(self, key: IPCCacheServerKey, tp_size: int) -> None:
        self.lookups.lookup(key, tp_size)

    @server_module_handler("my_package.mode")
    def mode(self, payload: bytes) -> bytes:
        return self.config["mode"].encode()

    def report_status(self):
        return {}

    def close(self):
        pass


def test_a_module_is_built_called_and_told_of_events_without_a_server():
    mp_config = MPServerConfig(chunk_size=256)
    build_ctx = ModuleBuildContext(
        MPCacheServerContext(mp_config), mp_config, configs={MyServerModule: {"mode": "shadow"}}
    )
    build_ctx.register(FakeLookups())
    module = MyServerModule.create(build_ctx)
    router = build_server_module_router([module])
    assert router.server_module_call(ServerModuleCallRequest("my_package.mode", b"")).payload == b"shadow"
    key = IPCCacheServerKey("m", 1, None, [1], 0, 1, "r")
    module.lookup(key, 1)
    assert module.lookups.keys == [key]
    module.context.event_bus.publish(Event("my.event", "s"))
    module.context.event_bus.stop()
    assert [event.session_id for event in module.seen] == ["s"]


def test_handlers_may_be_static_and_class_methods_decorated_in_either_order():
    class Kinds:
        @server_module_handler("k.a")
        @staticmethod
        def a(payload):
            return b"a" + payload

        @staticmethod
        @server_module_handler("k.b")
        def b(payload):
            return b"b" + payload

        @server_module_handler("k.c")
        @classmethod
        def c(cls, payload):
            return cls.__name__.encode() + payload

        @classmethod
        @server_module_handler("k.d")
        def d(cls, payload):
            return cls.__name__.encode() + payload

        @request_handler(HandlerType.SYNC)
        @staticmethod
        def noop() -> str:
            return "OK"

    handlers = {bound.method: bound.handler(b"!") for bound in iter_server_module_handlers(Kinds())}
    assert handlers == {"k.a": b"a!", "k.b": b"b!", "k.c": b"Kinds!", "k.d": b"Kinds!"}
    (bound,) = iter_request_handlers(Kinds())
    assert (bound.operation, bound.handler()) == ("noop", "OK")


def test_30_four_methods_are_a_target_and_three_are_none():
    class Four:
        touch_instance = reap_stale_instances = tracked_instance_count = drop_instance_state = lambda self, *_: None

    class Three:
        touch_instance = reap_stale_instances = tracked_instance_count = lambda self, *_: None

    assert isinstance(Four(), InstanceLivenessTarget) and not isinstance(Three(), InstanceLivenessTarget)
