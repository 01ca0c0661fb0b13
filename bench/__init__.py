"""What a turn costs, measured on the real server: `python -m bench`."""
