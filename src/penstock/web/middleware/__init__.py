"""ASGI middleware of the API and its pages: request bodies, authentication, rate limits, errors."""
