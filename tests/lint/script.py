"""Loads a script of scripts/ as a module: a process for each small case would cost more than the case."""

import importlib.util
import pathlib

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"


def load(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
