"""An agent, or its tool, that is killed for memory (issue 4, item 12): it takes minutes where an agent
starts slowly and fills most of a gigabyte.
"""

import re
import shlex

from tests.integration.conftest import Apps
from tests.integration.harness import Stack
from tests.integration.test_memory_kills import limited
from tests.stubs.model_scenarios import directive
from tests.stubs.model_server import ModelServer

TASK_LIMIT_BYTES = 900 << 20
AGENT_LIMIT_BYTES = 128 << 20


def test_a_task_whose_agents_tool_was_killed_tells_it():
    """The agent goes on: the task is told of the kill, and is no failure by it."""
    with ModelServer() as model, Stack(model=model) as stack:
        apps = Apps(stack)
        sandbox = limited(stack, apps, TASK_LIMIT_BYTES)
        script = "const a=[];for(;;)a.push(Buffer.alloc(16777216,120))"
        task = stack.api.make_task(sandbox, directive("shell", f"node -e {shlex.quote(script)}"))
        done = stack.api.wait_task(sandbox, task["id"])
        notices = [e.data["text"] for e in stack.api.events(sandbox, task["id"]) if e.event == "notice"]
        wanted = "killed by the kernel at the sandbox's memory limit of 900 MiB"
        assert any(re.search(wanted, text) for text in notices), (done, notices)
        if done["status"] == "failed":
            assert done["failure_reason"] == "out_of_memory", done
        apps.delete_all()


def test_a_task_whose_agent_was_killed_says_out_of_memory():
    """Its limit is too small for the agent itself."""
    with ModelServer() as model, Stack(model=model) as stack:
        apps = Apps(stack)
        sandbox = limited(stack, apps, AGENT_LIMIT_BYTES)
        task = stack.api.make_task(sandbox, directive("say", "hello"))
        done = stack.api.wait_task(sandbox, task["id"])
        assert (done["status"], done["failure_reason"]) == ("failed", "out_of_memory"), done
        assert "memory limit of 128 MiB" in done["error_message"], done
        apps.delete_all()
