"""The wire formats of the model providers that the scripted server speaks.

Each format reads a request body into a Conversation and writes a Reply as the provider would: as a
stream of server-sent events or as one JSON body. What is answered is decided elsewhere
(model_scenarios); nothing here knows a scenario.
"""

import json
import re
import time
from dataclasses import dataclass, field

USAGE_INPUT = 500
USAGE_CACHED = 1000
USAGE_OUTPUT = 35
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.S)
ARGUMENT_CHUNK_CHARS = 200


@dataclass
class Conversation:
    """What a scenario may look at: the last prompt and what the tools answered since."""

    model: str
    stream: bool
    prompt: str
    tool_results: list[str]
    tools: list[str]


@dataclass
class ToolCall:
    name: str
    arguments: dict


@dataclass
class Reply:
    """One answer of the model: text, then perhaps one tool call."""

    text: str
    call: ToolCall | None = None
    pieces: list[str] = field(default_factory=list)
    piece_delay_s: float = 0.0

    def text_pieces(self):
        return self.pieces or re.findall(r"\S+\s*", self.text) or [""]


def _text_of(content):
    """The text of a message's content: a string or a list of typed blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = []
    for block in content:
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            parts.append(block["text"])
    return "\n".join(parts)


def _without_reminders(text):
    return REMINDER.sub("", text).strip()


def _call_id():
    return f"call_{time.monotonic_ns():x}"


class ChatCompletions:
    """OpenAI chat/completions, as the zen provider of OpenCode uses it."""

    name = "chat"

    @staticmethod
    def parse(body):
        prompt, results = "", []
        for message in body.get("messages", []):
            role = message.get("role")
            if role == "user":
                text = _without_reminders(_text_of(message.get("content")))
                if text:
                    prompt, results = text, []
            elif role == "tool":
                results.append(_text_of(message.get("content")))
        tools = [t.get("function", {}).get("name", "") for t in body.get("tools") or []]
        return Conversation(body.get("model", ""), bool(body.get("stream")), prompt, results, tools)

    @staticmethod
    def usage():
        return {
            "prompt_tokens": USAGE_INPUT + USAGE_CACHED,
            "completion_tokens": USAGE_OUTPUT,
            "total_tokens": USAGE_INPUT + USAGE_CACHED + USAGE_OUTPUT,
            "prompt_tokens_details": {"cached_tokens": USAGE_CACHED},
        }

    @staticmethod
    def _tool_calls(call):
        return [
            {
                "index": 0,
                "id": _call_id(),
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
        ]

    @classmethod
    def stream(cls, conversation, reply):
        """Yields (bytes, is_text): what goes on the wire, and whether it is a piece of text."""
        head = {
            "id": "chatcmpl-stub",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": conversation.model,
        }

        def chunk(delta, finish=None, **more):
            choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
            return b"data: " + json.dumps({**head, "choices": choices, **more}).encode() + b"\n\n"

        yield chunk({"role": "assistant", "content": ""}), False
        for piece in reply.text_pieces():
            yield chunk({"content": piece}), True
        if reply.call:
            yield chunk({"tool_calls": cls._tool_calls(reply.call)}), False
        yield chunk({}, "tool_calls" if reply.call else "stop", usage=cls.usage()), False
        yield b"data: [DONE]\n\n", False

    @classmethod
    def whole(cls, conversation, reply):
        message = {"role": "assistant", "content": reply.text}
        if reply.call:
            message["tool_calls"] = cls._tool_calls(reply.call)
        finish = "tool_calls" if reply.call else "stop"
        return {
            "id": "chatcmpl-stub",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": conversation.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": cls.usage(),
        }

    @staticmethod
    def error(status, kind, message):
        return {"error": {"type": kind, "message": message, "code": status}}


class Messages:
    """Anthropic Messages, as Claude Code uses it."""

    name = "messages"

    @staticmethod
    def _user_blocks(body):
        for message in body.get("messages", []):
            if message.get("role") != "user":
                continue
            content = message.get("content")
            blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
            yield from (b for b in blocks if isinstance(b, dict))

    @classmethod
    def parse(cls, body):
        prompt, results = "", []
        for block in cls._user_blocks(body):
            if block.get("type") == "tool_result":
                results.append(_text_of(block.get("content")))
                continue
            # A prompt may stand behind the results of an earlier turn, in one message with them.
            text = _without_reminders(_text_of([block]))
            if text:
                prompt, results = text, []
        tools = [t.get("name", "") for t in body.get("tools") or []]
        return Conversation(body.get("model", ""), bool(body.get("stream")), prompt, results, tools)

    @staticmethod
    def _message(conversation):
        return {
            # Its own each time: agents take messages of one id for one message.
            "id": "msg_" + _call_id()[5:],
            "type": "message",
            "role": "assistant",
            "model": conversation.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": USAGE_INPUT,
                "cache_read_input_tokens": USAGE_CACHED,
                "cache_creation_input_tokens": 0,
                "output_tokens": 1,
            },
        }

    @classmethod
    def stream(cls, conversation, reply):
        def event(kind, **fields):
            data = json.dumps({"type": kind, **fields})
            return f"event: {kind}\ndata: {data}\n\n".encode()

        yield event("message_start", message=cls._message(conversation)), False
        block = {"type": "text", "text": ""}
        yield event("content_block_start", index=0, content_block=block), False
        for piece in reply.text_pieces():
            delta = {"type": "text_delta", "text": piece}
            yield event("content_block_delta", index=0, delta=delta), True
        yield event("content_block_stop", index=0), False
        if reply.call:
            block = {"type": "tool_use", "id": "toolu_" + _call_id()[5:], "name": reply.call.name, "input": {}}
            yield event("content_block_start", index=1, content_block=block), False
            text = json.dumps(reply.call.arguments)
            for at in range(0, len(text), ARGUMENT_CHUNK_CHARS):
                part = text[at : at + ARGUMENT_CHUNK_CHARS]
                delta = {"type": "input_json_delta", "partial_json": part}
                yield event("content_block_delta", index=1, delta=delta), False
            yield event("content_block_stop", index=1), False
        delta = {"stop_reason": "tool_use" if reply.call else "end_turn", "stop_sequence": None}
        yield event("message_delta", delta=delta, usage={"output_tokens": USAGE_OUTPUT}), False
        yield event("message_stop"), False

    @classmethod
    def whole(cls, conversation, reply):
        message = cls._message(conversation)
        message["content"] = [{"type": "text", "text": reply.text}]
        message["stop_reason"] = "tool_use" if reply.call else "end_turn"
        message["usage"]["output_tokens"] = USAGE_OUTPUT
        if reply.call:
            message["content"].append(
                {
                    "type": "tool_use",
                    "id": "toolu_" + _call_id()[5:],
                    "name": reply.call.name,
                    "input": reply.call.arguments,
                }
            )
        return message

    @staticmethod
    def error(_status, kind, message):
        return {"type": "error", "error": {"type": kind, "message": message}}


class Responses:
    """OpenAI Responses, as Codex and the gpt models of OpenCode use it."""

    name = "responses"

    @staticmethod
    def parse(body):
        prompt, results = "", []
        given = body.get("input")
        for item in given if isinstance(given, list) else [{"role": "user", "content": given}]:
            kind = item.get("type")
            if kind in ("function_call_output", "custom_tool_call_output"):
                output = item.get("output")
                results.append(output if isinstance(output, str) else _text_of(output))
            elif item.get("role") == "user":
                text = _without_reminders(_text_of(item.get("content")))
                if text and not text.startswith("<environment_context>"):
                    prompt, results = text, []
        tools = [t.get("name") or t.get("type", "") for t in body.get("tools") or []]
        return Conversation(body.get("model", ""), bool(body.get("stream")), prompt, results, tools)

    @staticmethod
    def _items(reply):
        text = {"type": "output_text", "text": reply.text, "annotations": []}
        items = [
            {
                "type": "message",
                "id": "msg_stub",
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        ]
        if reply.call:
            call_id = _call_id()
            items.append(
                {
                    "type": "function_call",
                    "id": "fc_" + call_id,
                    "call_id": call_id,
                    "name": reply.call.name,
                    "arguments": json.dumps(reply.call.arguments),
                    "status": "completed",
                }
            )
        return items

    @classmethod
    def whole(cls, conversation, reply):
        return {
            "id": "resp_stub",
            "object": "response",
            "created_at": int(time.time()),
            "model": conversation.model,
            "status": "completed",
            "output": cls._items(reply),
            "usage": {
                "input_tokens": USAGE_INPUT + USAGE_CACHED,
                "input_tokens_details": {"cached_tokens": USAGE_CACHED},
                "output_tokens": USAGE_OUTPUT,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": USAGE_INPUT + USAGE_CACHED + USAGE_OUTPUT,
            },
        }

    @classmethod
    def stream(cls, conversation, reply):
        sequence = iter(range(1 << 20))

        def event(kind, **fields):
            data = json.dumps({"type": kind, "sequence_number": next(sequence), **fields})
            return f"event: {kind}\ndata: {data}\n\n".encode()

        done = cls.whole(conversation, reply)
        started = {**done, "status": "in_progress", "output": [], "usage": None}
        yield event("response.created", response=started), False
        for index, item in enumerate(done["output"]):
            empty = {**item, "status": "in_progress"}
            empty.update({"content": []} if item["type"] == "message" else {"arguments": ""})
            yield event("response.output_item.added", output_index=index, item=empty), False
            at = {"item_id": item["id"], "output_index": index}
            if item["type"] == "message":
                for piece in reply.text_pieces():
                    yield event("response.output_text.delta", content_index=0, delta=piece, **at), True
                text = reply.text
                yield event("response.output_text.done", content_index=0, text=text, **at), False
            else:
                text = item["arguments"]
                yield event("response.function_call_arguments.delta", delta=text, **at), False
                yield event("response.function_call_arguments.done", arguments=text, **at), False
            yield event("response.output_item.done", output_index=index, item=item), False
        yield event("response.completed", response=done), False

    @staticmethod
    def error(status, kind, message):
        return {"error": {"type": kind, "message": message, "code": str(status), "param": None}}


def format_of(path):
    """The format of a request path (without its query), or None."""
    if path.endswith("/chat/completions"):
        return ChatCompletions
    if path.endswith("/messages"):
        return Messages
    if path.endswith("/responses"):
        return Responses
    return None
