"""A configuration with entries of all kinds, and requests that change them."""

from tests.conftest import CONFIG

YAML_TYPE = {"Content-Type": "application/yaml"}
FULL_CONFIG = (
    CONFIG.replace("    preamble: You are a test assistant.\n", "", 1)
    + """
  - name: team
    provider: openai
    model: gpt-test
    judges: [quality]
    subagents: [tuned]
    fallbacks: [forgetful]
judges:
  - name: quality
    provider: openai
    model: gpt-j
    rubrics: {clear: It is clear.}
experiments:
  - name: trial
    strategy: split
    variants: [{agent: tuned}, {agent: claude}]
  - name: best
    strategy: bandit
    metric: quality.clear
    variants: [{agent: team}]
smoke_tests:
  - name: greeting
    target: tuned
    persona: {provider: openai, model: p, preamble: x}
"""
)
NEW_AGENT = "name: bob\nprovider: openai\nmodel: gpt-x # the new one\n"
NEW_ENTRIES = {
    "agents": NEW_AGENT,
    "experiments": "name: bob\nstrategy: split\nvariants: [{agent: tuned}]\n",
    "judges": "name: bob\nprovider: openai\nmodel: j\nrubrics: {a: b}\n",
    "smoke": (
        "name: bob\ntarget: claude\n"
        "persona: {provider: openai, model: p, preamble: x}\n"
    ),
}


def put_entry(script, path, text, headers=YAML_TYPE):
    return script.put(f"/admin/{path}", content=text, headers={**YAML_TYPE, **headers})


def post(script, path, text):
    return script.post(f"/admin/{path}", content=text, headers=YAML_TYPE)


def labels(script, kind="agents"):
    listed = script.get(f"/admin/{kind}").json()["data"]
    return {entry["name"]: entry["label"] for entry in listed}
