"""The blend module. It is not part of this server yet."""

from pkgutil import extend_path

from lmcache.v1.multiprocess.modules.blend.module import BlendModule

__path__ = extend_path(__path__, __name__)
__all__ = ["BlendModule"]
