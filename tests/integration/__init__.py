"""Integration tests: the real programs, a real Docker engine, a real Traefik, real agents."""
