"""The model server on this machine."""
