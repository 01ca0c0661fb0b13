"""`coulisse studio`: opens the studio in a browser."""

import webbrowser
from typing import Any

from config.management.base import ConfigCommand
from processes.server.running_server import require_running
from processes.supervision import state_directory


class Command(ConfigCommand):
    """Takes the address from the running server, not from the YAML."""

    help = "Open the studio (/admin/) of the running server in the web browser."

    def handle(self, **options: Any) -> None:
        url = f"{require_running(state_directory.current_state()).url}/admin/"
        self.stdout.write(f"opening {url}")
        if not webbrowser.open(url):
            self.stdout.write("cannot open a browser here: open the address yourself")
