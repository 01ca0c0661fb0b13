"""A configuration file with comments, and requests that change it."""

from tests.conftest import CONFIG

AS_YAML = {"Content-Type": "application/yaml"}
WANTS_YAML = {"Accept": "application/yaml"}
TEXT = (
    CONFIG.lstrip()
    + """
# Turn records.
telemetry: # all of it
  # on stderr
  fmt: {enabled: true}
mcp:
  files:
    command: uvx
    args: [files]
    env: {TOKEN: env-secret}
  web: # remote
    url: http://127.0.0.1:9/mcp
    oauth: false
# the end
"""
)


def error_of(response):
    return response.json()["error"]
