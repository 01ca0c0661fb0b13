"""Import from Coulisse's earlier version, written in Rust: its state directory.

Users keep their ids, because the Rust version derives them from names in a well-known
namespace, which this installation adopts (`users`). Messages, memories, tokens and
scores keep theirs, which is how a second run finds them.
"""

from imports.coulisse.state_directory import HELP, add_arguments, run

__all__ = ["HELP", "add_arguments", "run"]
