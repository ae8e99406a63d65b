"""The envelope of ``server_module_call``."""

from lmcache._messages import message

__all__ = ["ServerModuleCallRequest", "ServerModuleCallResponse"]


@message
class ServerModuleCallRequest:
    """Calls the method of a server module; ``payload`` belongs to that module."""

    method: str
    payload: bytes


@message
class ServerModuleCallResponse:
    """``error`` says why when ``success`` is false."""

    success: bool
    payload: bytes
    error: str
