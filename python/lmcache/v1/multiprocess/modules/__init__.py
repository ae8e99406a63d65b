"""The server's own modules, as classes that other modules depend on."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
