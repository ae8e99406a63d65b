"""What can go wrong, from the caller's point of view."""


class LMCacheError(Exception):
    """Base of everything this package raises on its own account."""


class RequestTimeout(LMCacheError, TimeoutError):
    """No reply in time. The protocol has no error reply, so this also stands for a refusal."""


class ClientClosed(LMCacheError):
    """The client was closed while the request was outstanding, or before it was made."""


class ProtocolError(LMCacheError):
    """The server sent something that is not a reply of this operation."""


class NotRegistered(LMCacheError):
    """The server did not take the registration (the text says why where it told), or there was none."""
