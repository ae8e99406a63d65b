"""Names of the first generation of the plugin API."""

from lmcache.v1.multiprocess.ext_server_module import (
    DEFAULT_FACTORY_NAME,
    build_server_module_router,
    iter_server_module_handlers,
    load_server_module_components,
    parse_server_module_specs,
    register_grpc_services,
    register_zmq_services,
    server_module_handler,
)
from lmcache.v1.multiprocess.ext_server_module import (
    ExtServerModuleBuildContext as ServerModuleBuildContext,
)
from lmcache.v1.multiprocess.ext_server_module import (
    ExtServerModuleComponents as ServerModuleComponents,
)
from lmcache.v1.multiprocess.ext_server_module import (
    ExtServerModuleRouter as ServerModuleRouter,
)
from lmcache.v1.multiprocess.ext_server_module import (
    ExtServerModuleSpec as ServerModuleSpec,
)

__all__ = [
    "DEFAULT_FACTORY_NAME",
    "ServerModuleBuildContext",
    "ServerModuleComponents",
    "ServerModuleRouter",
    "ServerModuleSpec",
    "build_server_module_router",
    "iter_server_module_handlers",
    "load_server_module_components",
    "parse_server_module_specs",
    "register_grpc_services",
    "register_zmq_services",
    "server_module_handler",
]
