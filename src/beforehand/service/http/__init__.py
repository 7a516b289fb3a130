"""The service over HTTP: one file per group of routes, each with one function `routes(served)`."""

from beforehand.service.http.limits import Limits

__all__ = ["Limits"]
