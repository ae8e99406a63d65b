"""What the server's own modules have in common on the side of Python."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, List, Optional, Tuple

from lmcache._bridge import host
from lmcache._contracts import message_types
from lmcache.v1.multiprocess.engine_module import DiscoverableModule, ModuleBuildContext


class BuiltinModule(DiscoverableModule):
    """A module that is written in C. An instance stands for the one that the server has built;
    its methods run that module's own handlers, whoever else overrides the operation.

    A subclass inherits them: what it overrides with ``@request_handler`` it serves, and
    ``super()`` reaches the original.
    """

    stem: ClassVar[str] = ""  # the name that older generations have for it

    def __init__(self, context: Any = None, *_arguments: Any, **_options: Any) -> None:
        self._context = context

    @classmethod
    def create(cls, build_ctx: ModuleBuildContext) -> Optional[Any]:
        return cls(build_ctx.engine_context)

    @property
    def context(self) -> Any:
        return self._context

    def report_status(self) -> Dict[str, Any]:
        """The server itself adds what this module reports."""
        return {}

    def close(self) -> None:
        """The server closes it."""

    @classmethod
    def server_name(cls) -> str:
        """The name of the class in the server; also for subclasses."""
        for base in cls.__mro__:
            if "stem" in vars(base):
                return base.__name__
        return cls.__name__

    def _call(self, operation: str, *arguments: Any, reply: Optional[str] = None) -> Any:
        name = self.server_name()
        try:
            result = host(f"{name}.{operation}").call_operation(name, operation, arguments)
        except KeyError:
            raise NotImplementedError(
                f"{name}.{operation} is not available: this server does not have it"
            ) from None
        if reply is not None and isinstance(result, dict):
            return message_types[reply](result)
        return result

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of the server>"


class BuiltinTransferModule(BuiltinModule):
    """One that keeps state per worker: a liveness target."""

    def touch_instance(self, instance_id: int) -> None:
        name = self.server_name()
        host(f"{name}.touch_instance").touch_instance(name, instance_id)

    def reap_stale_instances(
        self, reap_timeout_s: float, registration_grace_s: float
    ) -> List[int]:
        name = self.server_name()
        reap = host(f"{name}.reap_stale_instances").reap_stale_instances
        return list(reap(name, reap_timeout_s, registration_grace_s))

    def tracked_instance_count(self) -> int:
        name = self.server_name()
        return host(f"{name}.tracked_instance_count").tracked_instance_count(name)

    def drop_instance_state(self, instance_id: int) -> None:
        name = self.server_name()
        host(f"{name}.drop_instance_state").drop_instance_state(name, instance_id)


class NativeModule:
    """A module from a shared object. Operations that it handles are its methods."""

    def __init__(self, name: str, context: Any = None) -> None:
        self.module_name = name
        self.context = context

    def __getattr__(self, operation: str) -> Any:
        if operation.startswith("_") or operation not in self._operations():
            raise AttributeError(f"native module {self.module_name} has no operation {operation!r}")

        def call(*arguments: Any) -> Any:
            return host().call_operation(self.module_name, operation, arguments)

        return call

    def _operations(self) -> Tuple[str, ...]:
        return tuple(host("a native module").module_operations(self.module_name))

    def report_status(self) -> Dict[str, Any]:
        return {}

    def close(self) -> None:
        return None

    def __repr__(self) -> str:
        return f"<native module {self.module_name}>"
