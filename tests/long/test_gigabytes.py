"""A gigabyte down and a gigabyte up through edge, proxy and door, with flat memory of the proxy (issue 4, item 4)."""

import hashlib
import threading
import time

from tests.integration.conftest import Apps
from tests.integration.client import Preview
from tests.integration.edge import Edge
from tests.integration.harness import Stack

MIB = 1024 * 1024
SIZE_MIB = 1024
GROWTH_MIB_MAX = 48  # what the sanitiser keeps back included
SECONDS_MAX = 500
PIECE = b"sandboxd" * (MIB // 8)


def private_mib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) / 1024


class Peak:
    """The most private memory that the proxy had while this ran."""

    def __init__(self, pid):
        self.pid, self.before, self.most, self.over = pid, private_mib(pid), 0.0, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *_error):
        self.over.set()
        self.thread.join()

    def _watch(self):
        while not self.over.is_set():
            self.most = max(self.most, private_mib(self.pid))
            time.sleep(0.1)

    def assert_flat(self):
        assert self.most - self.before < GROWTH_MIB_MAX, f"{self.before:.1f} MiB grew to {self.most:.1f} MiB"


def test_a_gigabyte_each_way_with_flat_memory():
    with Stack() as stack, Edge(stack):
        apps, front = Apps(stack), Preview(stack.http_port)
        sandbox = apps.server(source="bulk.js")["id"]
        with Peak(stack["preview"].pid) as peak:
            answer = front.get(sandbox, f"/download?mib={SIZE_MIB}", stream=True, timeout=SECONDS_MAX)
            received, digest = 0, hashlib.sha256()
            for piece in answer.iter_content(MIB):
                received += len(piece)
                digest.update(piece)
        assert received == SIZE_MIB * MIB
        peak.assert_flat()

        wanted = hashlib.sha256()
        for _ in range(SIZE_MIB):
            wanted.update(PIECE)
        assert digest.hexdigest() == wanted.hexdigest()
        with Peak(stack["preview"].pid) as peak:
            answer = front.post(sandbox, "/upload", data=(PIECE for _ in range(SIZE_MIB)), timeout=SECONDS_MAX)
        assert answer.json() == {"bytes": SIZE_MIB * MIB, "sha256": wanted.hexdigest()}
        peak.assert_flat()
        apps.delete_all()
