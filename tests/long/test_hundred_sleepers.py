"""A hundred sleepers woken in one moment (issue 4, the fault matrix): each is started once and answered by its app,
those that were told to come back included.
"""

from tests.bench import measure
from tests.bench.measure import Starts
from tests.bench.stacks import Sleepers
from tests.integration.harness import Stack

SLEEPERS = 100
ROUND_SECONDS_MAX = 90
ROUNDS_MAX = 6


def test_a_hundred_sleepers_are_each_started_once_and_answered():
    with Stack() as stack, Sleepers(stack, SLEEPERS) as sleepers, Starts(stack.data) as seen:
        waiting, told_to_wait = sleepers.hosts(), 0
        for _ in range(ROUNDS_MAX):
            answers = measure.get_all(stack.preview_port, waiting, seconds=ROUND_SECONDS_MAX)
            assert {status for status, _ in answers} <= {200, 503}, answers
            waiting = [host for host, (status, _) in zip(waiting, answers, strict=True) if status == 503]
            told_to_wait += len(waiting)
            if not waiting:
                break
        assert not waiting, f"{len(waiting)} of {SLEEPERS} were never answered; {told_to_wait} times 503"
        assert seen.count(sleepers.ids) == [1] * SLEEPERS
