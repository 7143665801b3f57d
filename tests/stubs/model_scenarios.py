"""What the scripted model answers: a scenario picks the reply from the prompt and the turn.

The turn is the number of tool results since the last prompt, so the server keeps no state and an
agent that retries gets the same answer again. A prompt names its scenario anywhere in its text:

    [[scenario:shell cat /etc/hostname]]

No such words: "todo". Long or awkward arguments travel as base64: see directive().
"""

import base64
import re
import shlex
from dataclasses import dataclass

from tests.stubs.model_formats import Reply, ToolCall

APP = "/home/sandbox/workspace/app"
TODO_PATH = f"{APP}/src/App.tsx"
DIRECTIVE = re.compile(r"\[\[scenario:([a-z0-9_]+)(?:[ \n](.*?))?\]\]", re.S)
BASE64_MARK = "base64:"
SLOW_SECONDS = 20.0
SLOW_PIECE_SECONDS = 0.25
DEFAULT_RETRY_AFTER_S = 1

TODO_APP = """import { useEffect, useState, type FormEvent } from 'react'

type Todo = { key: number; text: string }

const STORE = 'todos'

function load(): Todo[] {
  try {
    return JSON.parse(localStorage.getItem(STORE) ?? '[]') as Todo[]
  } catch {
    return []
  }
}

export function App() {
  const [todos, setTodos] = useState<Todo[]>(load)
  const [text, setText] = useState('')

  useEffect(() => localStorage.setItem(STORE, JSON.stringify(todos)), [todos])

  function add(event: FormEvent) {
    event.preventDefault()
    const wanted = text.trim()
    if (!wanted) return
    setTodos([...todos, { key: Date.now(), text: wanted }])
    setText('')
  }

  return (
    <main>
      <h1>Todo list</h1>
      <form onSubmit={add}>
        <input aria-label="New todo" value={text} onChange={(e) => setText(e.target.value)} />
        <button type="submit">Add</button>
      </form>
      <ul>
        {todos.map((todo) => (
          <li key={todo.key}>
            <span>{todo.text}</span>
            <button type="button" onClick={() => setTodos(todos.filter((t) => t.key !== todo.key))}>
              Delete
            </button>
          </li>
        ))}
      </ul>
    </main>
  )
}
"""


@dataclass
class Failure:
    """An HTTP error instead of an answer."""

    status: int
    kind: str
    message: str
    headers: dict


@dataclass
class Broken:
    """A fault of the transport: cut, truncate (a clean end without a finish), hang, stall."""

    how: str
    reply: Reply


def directive(name, argument=""):
    """The words that make a prompt run a scenario, whatever characters the argument has."""
    if argument and ("]]" in argument or "\n" in argument or argument.startswith(BASE64_MARK)):
        argument = BASE64_MARK + base64.b64encode(argument.encode()).decode()
    return f"[[scenario:{name} {argument}]]" if argument else f"[[scenario:{name}]]"


def scenario_of(prompt):
    found = DIRECTIVE.search(prompt)
    if not found:
        return "todo", ""
    name, argument = found.group(1), found.group(2) or ""
    if argument.startswith(BASE64_MARK):
        argument = base64.b64decode(argument[len(BASE64_MARK) :]).decode()
    return name, argument


# --- the agent's own tools, by whatever name it offers them -------------------------------------


def _pick(conversation, *names):
    return next((n for n in names if n in conversation.tools), None)


def shell_call(conversation, command):
    name = _pick(conversation, "bash", "Bash", "exec_command", "shell")
    if name == "exec_command":
        return ToolCall(name, {"cmd": command})
    if name == "shell":
        return ToolCall(name, {"command": ["bash", "-c", command]})
    return ToolCall(name or "bash", {"command": command, "description": "Runs a command"})


def write_call(conversation, path, content):
    name = _pick(conversation, "write", "Write")
    if name == "write":
        return ToolCall(name, {"filePath": path, "content": content})
    if name == "Write":
        return ToolCall(name, {"file_path": path, "content": content})
    quoted = shlex.quote(path)
    return shell_call(conversation, f"cat > {quoted} <<'END_OF_FILE'\n{content}END_OF_FILE\n")


def read_call(conversation, path):
    name = _pick(conversation, "read", "Read")
    if name == "read":
        return ToolCall(name, {"filePath": path})
    if name == "Read":
        return ToolCall(name, {"file_path": path})
    return shell_call(conversation, f"cat {shlex.quote(path)}")


# --- scenarios: (conversation, argument) -> Reply | Failure | Broken ----------------------------


def _todo(conversation, argument):
    """Reads App.tsx (agents refuse to overwrite a file unread), writes it, lists, finishes."""
    path = argument or TODO_PATH
    turn = len(conversation.tool_results)
    if turn == 0:
        text = "I will look at the page first, then write the todo list."
        return Reply(text, read_call(conversation, path))
    if turn == 1:
        return Reply("Now the todo list.", write_call(conversation, path, TODO_APP))
    if turn == 2:
        return Reply("Let me check the files.", shell_call(conversation, f"ls {shlex.quote(path.rsplit('/', 1)[0])}"))
    return Reply("The todo list is in place: an input, an add button and a delete button on each row.")


def _say(_conversation, argument):
    return Reply(argument or "Nothing to do.")


def _shell(conversation, argument):
    if not conversation.tool_results:
        return Reply("Running the command.", shell_call(conversation, argument))
    return Reply(f"The command answered: {conversation.tool_results[-1]}")


def _write(conversation, argument):
    path, _, text = argument.partition(" ")
    turn = len(conversation.tool_results)
    if turn == 0:
        return Reply("Looking at the file.", read_call(conversation, path))
    if turn == 1:
        return Reply("Writing the file.", write_call(conversation, path, text + "\n"))
    return Reply(f"Wrote {path}.")


def _slow(conversation, argument):
    """Talks for the given seconds, then leaves a file behind: `slow [seconds] [path]`."""
    words = argument.split()
    seconds = float(words[0]) if words else SLOW_SECONDS
    path = words[1] if len(words) > 1 else f"{APP}/slow.txt"
    if conversation.tool_results:
        return Reply("The slow work is done.")
    count = max(1, int(seconds / SLOW_PIECE_SECONDS))
    pieces = [f"word-{n} " for n in range(count)]
    call = shell_call(conversation, f"echo done >> {shlex.quote(path)}")
    return Reply("".join(pieces), call, pieces, SLOW_PIECE_SECONDS)


def _failure(status, kind, message):
    def answer(_conversation, argument):
        headers = {}
        if status == 429:
            headers["retry-after"] = argument or str(DEFAULT_RETRY_AFTER_S)
        return Failure(status, kind, f"stub says {status}: {message}", headers)

    return answer


def _broken(how):
    def answer(conversation, _argument):
        text = "This answer stops in the middle of a sentence because the line is"
        return Broken(how, Reply(text, shell_call(conversation, "true")))

    return answer


SCENARIOS = {
    "todo": _todo,
    "say": _say,
    "shell": _shell,
    "write": _write,
    "slow": _slow,
    "cut": _broken("cut"),
    "truncate": _broken("truncate"),
    "hang": _broken("hang"),
    "stall": _broken("stall"),
    "fail400": _failure(400, "invalid_request_error", "the request is not understood"),
    "fail401": _failure(401, "authentication_error", "the key is not valid"),
    "fail402": _failure(402, "billing_error", "no credit is left"),
    "fail404": _failure(404, "not_found_error", "the model does not exist"),
    "fail429": _failure(429, "rate_limit_error", "too many requests"),
    "fail500": _failure(500, "api_error", "something broke"),
}


def answer(conversation):
    """What the model does next in this conversation."""
    name, argument = scenario_of(conversation.prompt)
    act = SCENARIOS.get(name)
    if act is None:
        return Failure(400, "invalid_request_error", f"the stub knows no scenario {name}", {})
    outcome = act(conversation, argument)
    # A request without tools wants words only (a title, a summary): no tool may be called.
    if isinstance(outcome, Reply) and outcome.call and not conversation.tools:
        return Reply("A short title")
    return outcome
