"""A misbehaving server over stdio, without the SDK: it starts fast."""

import json
import os
import subprocess
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
DEEP: dict = {"type": "object"}
for _ in range(60):
    DEEP = {"type": "object", "properties": {"a": DEEP}}

OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}}
tools = [
    {"name": name, "description": f"Does {name}.", "inputSchema": OBJECT}
    for name in (
        "big",
        "bytes",
        "change",
        "cwd",
        "die",
        "echo",
        "env",
        "fail",
        "halves",
        "hang",
        "methods",
        "huge",
        "overload",
        "pid",
        "refuse",
        "rubbish",
        "spawn",
        "wrong",
    )
]
if MODE == "schemas":
    schemas = {
        "good": {},
        "list": {"type": "array"},
        "not_a_map": "nonsense",
        "not_json_schema": {"type": "object", "properties": {"a": {"type": 7}}},
        "deep": DEEP,
        "large": {"type": "object", "description": "x" * 100_001},
    }
    tools = [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]
    tools += [{"name": "good", "inputSchema": {"type": "object"}}, {"inputSchema": {}}]
    tools += ["nonsense", {"name": "without"}]
if MODE == "many":
    tools = [{"name": f"t{number}", "inputSchema": OBJECT} for number in range(1100)]
if MODE == "bad":
    tools = [{"name": f"bad{number}"} for number in range(100)]
if MODE == "control":
    tools = [{"name": "a\nWARNING b\x1b[2J", "inputSchema": OBJECT}]
    tools += [{"name": "c\nWARNING d", "inputSchema": {"type": "array"}}]
if MODE == "names":
    names = ["a.b", "a_b", "n" * 200, "n" * 199 + "m", "größe", "fine"]
    tools = [{"name": name, "inputSchema": OBJECT} for name in names]

methods: list[str] = []


def send(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value: str) -> dict:
    return {"content": [{"type": "text", "text": value}]}


def raw(id_: int, value: bytes) -> None:
    frame = json.dumps({"jsonrpc": "2.0", "id": id_, "result": text("HERE")}).encode()
    sys.stdout.buffer.write(frame.replace(b"HERE", value) + b"\n")
    sys.stdout.flush()


def call(id_: int, name: str, arguments: dict) -> None:  # noqa: C901 (a list)
    result = text(f"no {name}")
    match name:
        case "big":
            result = text("x" * 10_000_000)
        case "bytes":
            raw(id_, b"caf\xe9 \xff")
            return
        case "change":
            tools.append({"name": "newcomer", "inputSchema": OBJECT})
            send({"method": "notifications/tools/list_changed"})
            result = text("changed")
        case "cwd":
            result = text(os.getcwd())
        case "die":
            sys.stderr.write("I cannot go on\n")
            os._exit(3)
        case "echo":
            result = text(arguments.get("text", ""))
        case "env":
            result = text(json.dumps(dict(os.environ)))
        case "fail":
            result = text("the oven is cold") | {"isError": True}
        case "halves":
            raw(id_, b"half \\ud83d of one")
            return
        case "hang":
            return
        case "methods":
            result = text(" ".join(methods))
        case "huge":
            raw(id_, b"x" * 20_000_000)
            return
        case "overload":
            send({"id": id_, "error": {"code": -32000, "message": "come back later"}})
            return
        case "pid":
            result = text(str(os.getpid()))
        case "refuse":
            error = {"code": -32602, "message": "text must be short"}
            send({"id": id_, "error": error})
            return
        case "rubbish":
            sys.stdout.write("Listening on port 1\n\n{\nnull\n")
            result = text("still here")
        case "spawn":
            child = subprocess.Popen(["sleep", "600"])
            result = text(str(child.pid))
        case "wrong":
            result = {"content": 5}
    send({"id": id_, "result": result})


def page(id_: int, cursor: str | None) -> None:
    if MODE not in ("pages", "endless"):
        send({"id": id_, "result": {"tools": tools}})
        return
    at = int(cursor or 0)
    if MODE == "endless":
        one = {"name": f"t{at}", "inputSchema": OBJECT}
        send({"id": id_, "result": {"tools": [one], "nextCursor": str(at + 1)}})
        return
    result: dict = {"tools": tools[at : at + 3]}
    if at + 3 < len(tools):
        result["nextCursor"] = str(at + 3)
    send({"id": id_, "result": result})


def answer(message: dict) -> None:
    id_, method = message.get("id"), message.get("method")
    params = message.get("params") or {}
    methods.append(str(method))
    match method:
        case "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "raw", "version": "1"}
            version = params["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": capabilities}
            send({"id": id_, "result": result | {"serverInfo": info}})
        case "tools/list":
            page(id_, params.get("cursor"))
        case "tools/call":
            call(id_, params["name"], params.get("arguments") or {})
        case _ if id_ is not None:
            error = {"code": -32601, "message": "Method not found"}
            send({"id": id_, "error": error})


if MODE == "exit":
    sys.stderr.write(f"the key {os.environ.get('KEY', '?')} is wrong\n")
    sys.exit(4)
if MODE == "mute":
    time.sleep(600)
while MODE == "sleepy" and not os.path.exists(os.environ["GO"]):
    time.sleep(0.01)
for line in sys.stdin:
    answer(json.loads(line))
if MODE == "stubborn":
    time.sleep(600)
