"""Tests of sandboxd: unit and fuzz tests in C, integration tests and stubs in Python."""
