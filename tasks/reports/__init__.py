"""Read access to tasks for clients, operators and the terminal."""
