#!/usr/bin/env python3
"""docs/openapi.yaml as one line of JSON, which sandboxd serves at /v1/openapi.json.

    scripts/openapi-json.py docs/openapi.yaml build/openapi.json

Refuses a description that refers to what is not there, lacks a route of control/api/routes.c, or has
other error codes than control/http/errors.c.
"""

import json
import os
import pathlib
import re
import sys

import yaml

ROUTE = re.compile(r'^\s*\{"(GET|POST|PATCH|PUT|DELETE)", "(/[^"]*)", \w+, ([^,]+),', re.M)
CODE = re.compile(r'^\s*\{"([a-z_]+)", (\d{3}), (?:true|false)\},', re.M)
METHODS = ("get", "post", "patch", "put", "delete")


def references(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def resolves(described, reference):
    node = described
    for part in reference.removeprefix("#/").split("/"):
        if part not in node:
            return False
        node = node[part]
    return True


def shape(path):
    """Parameters have other names here than in the route table."""
    return re.sub(r"\{[^}]+\}|:\w+", "*", path)


def routes_of(source):
    """(method, path) of every route but the console's files."""
    found = ROUTE.findall(source)
    return {(method.lower(), shape(path)) for method, path, flags in found if "HTTP_FALLBACK" not in flags}


def main(source, target):
    described = yaml.safe_load(pathlib.Path(source).read_text(encoding="utf-8"))
    root = pathlib.Path(__file__).resolve().parent.parent
    served = routes_of((root / "control/api/routes.c").read_text(encoding="utf-8"))
    written = {(m, shape(path)) for path, item in described["paths"].items() for m in item if m in METHODS}
    faults = [f"refers to {r}, which is not there" for r in references(described) if not resolves(described, r)]
    faults += [f"lacks {method.upper()} {path}" for method, path in sorted(served - written)]
    faults += [f"has {method.upper()} {path}, which no route serves" for method, path in sorted(written - served)]
    codes = set(code for code, _ in CODE.findall((root / "control/http/errors.c").read_text(encoding="utf-8")))
    described_codes = described["components"]["schemas"]["ErrorBody"]["properties"]["error"]["properties"]["code"]["enum"]
    faults += [f"has other error codes than errors.c: {code}" for code in sorted(codes ^ set(described_codes))]
    if not served:
        faults.append("cannot be compared: no route was found in control/api/routes.c")
    for fault in faults:
        print(f"{source}: {fault}", file=sys.stderr)
    if faults:
        return 1
    target = pathlib.Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_suffix(f".{os.getpid()}")
    half.write_text(json.dumps(described, separators=(",", ":"), ensure_ascii=False), encoding="utf-8")
    half.replace(target)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
