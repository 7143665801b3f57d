"""Tests that run inside a machine of their own; started by the tests beside this folder."""
