"""sandboxd-preview-proxy by itself: what it answers and holds when sandboxd asks before a stop."""

import time

from tests.integration.proxy_fakes import wait_for
from tests.integration.test_proxy_preview_alone import asleep, leftovers, running, world  # noqa: F401

HOT = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: vite-hmr\r\nSec-WebSocket-Key: k\r\n"
OWN = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n"


def ask(world_, n):
    """As sandboxd does before a TERM; the answers to that number."""
    world_.route("stopping", ask=n)
    return wait_for(lambda: answers(world_, n), what=f"an answer to {n}")


def answers(world_, n):
    return [r for r in world_.broker.of("stopping") if r["n"] == str(n)]


def test_a_quiet_app_is_answered_for_at_once_and_once(running):  # noqa: F811
    (first,) = ask(running, 1)
    assert (first["id"], first["open"], first["busy"]) == (running.id, "0", "0"), first
    assert "age_ms" not in first, "no byte ever passed"
    running.route("stopping", ask=1, detail="another change of the row")
    running.route()
    assert running.ask("/after").status == 200
    assert len(answers(running, 1)) == 1
    (second,) = ask(running, 2)
    assert second["open"] == "0" and int(second["age_ms"]) < 10_000, second


def test_what_comes_is_held_and_asks_for_a_wake_and_goes_on_when_the_stop_is_withdrawn(running):  # noqa: F811
    ask(running, 1)
    client = running.client().send(running.text("POST", "/held", body="x"))
    running.held()
    assert running.app.count("/held") == 0
    running.route()
    assert client.answer("POST").status == 200
    assert running.app.count("/held") == 1


def test_a_request_at_work_is_told_and_its_end_too(running):  # noqa: F811
    client = running.client().send(running.text("GET", "/hang"))
    wait_for(lambda: running.app.count("/hang"), what="the request at the app")
    (first,) = ask(running, 7)
    assert (first["open"], first["busy"]) == ("1", "1"), first
    client.close()
    last = wait_for(lambda: answers(running, 7)[1:], what="the word that it is over")[-1]
    assert (last["open"], last["busy"]) == ("0", "0"), last


def test_sockets_count_as_open_but_are_not_waited_for_and_hot_reload_counts_as_nothing(running):  # noqa: F811
    hot = running.client().send(running.text("GET", "/ws", HOT))
    assert hot.head()[0] == 101
    (first,) = ask(running, 1)
    assert (first["open"], first["busy"]) == ("0", "0"), first
    running.route()
    own = running.client().send(running.text("GET", "/ws", OWN))
    assert own.head()[0] == 101
    (second,) = ask(running, 2)
    assert (second["open"], second["busy"]) == ("1", "0"), second
    own.close()
    hot.close()


def test_a_question_dies_with_whoever_asked(running):  # noqa: F811
    """sandboxd was killed before it sent the TERM: the app runs on, and so does its preview."""
    ask(running, 1)
    client = running.client().send(running.text("GET", "/held"))
    running.held()
    running.broker.stop()
    assert client.answer().status == 200
    assert running.ask("/next").status == 200
    # The kept table says so too.
    time.sleep(0.5)
    running.proxy.stop()
    running.relay.stop()
    running.proxy.start()
    running.relay.start()
    assert running.ask("/restarted").status == 200


def test_it_is_answered_again_after_a_reconnect(running):  # noqa: F811
    ask(running, 1)
    before = len(answers(running, 1))
    running.broker.stop()
    running.broker.start()
    running.route("stopping", ask=1)
    wait_for(lambda: len(answers(running, 1)) > before, what="an answer to the sandboxd that came back")
