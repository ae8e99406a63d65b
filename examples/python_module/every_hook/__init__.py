"""Everything that a server module can do, a file for each. The server builds these classes."""

from every_hook.echo import EchoModule
from every_hook.lookups import CountingLookups
from every_hook.sidecar import SidecarModule
from every_hook.stores import StoreCounter
from every_hook.workers import WorkerNotes

__version__ = "1.0.0"
__all__ = ["CountingLookups", "EchoModule", "SidecarModule", "StoreCounter", "WorkerNotes"]
