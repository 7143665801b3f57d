"""Many apps at once, written into the database while the control plane is stopped: nothing of them is on disk or in
Docker."""

import sqlite3
import time

from tests.integration.client import api_id

UID_NUMBER_FIRST = 1000  # real sandboxes of a test come before


def database(stack):
    return sqlite3.connect(stack.data / "state" / "sandboxd.db")


def delete_apps(stack):
    with database(stack) as db:
        for table in ("task_event", "task", "event", "sandbox", "app"):
            db.execute(f"DELETE FROM {table}")
    db.close()


def insert_apps(stack, count, status="stopped", first=0):
    """Ids of the sandboxes; `first` keeps two calls for one database apart."""
    now = int(time.time() * 1000)
    made = []
    with database(stack) as db:
        for number in range(first, first + count):
            app, sandbox = api_id(), api_id()
            made.append(sandbox)
            db.execute(
                "INSERT INTO app(id,name,description,runtime_preset,created_at,updated_at) VALUES(?,?,?,?,?,?)",
                (app, f"app number {number}", "written by a test", "node-http", now, now),
            )
            db.execute(
                "INSERT INTO sandbox(id,app_id,status,uid_number,image,ports,web_port,disk_bytes,disk_at,"
                "last_active_at,started_at,stopped_at,created_at,updated_at) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                (sandbox, app, status, UID_NUMBER_FIRST + number, "node-http", "3000", 3000, 123456, now, now, now, now, now, now),
            )
    db.close()
    return made
