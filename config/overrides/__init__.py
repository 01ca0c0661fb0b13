"""Store and edit the studio's overrides of entries in the file."""
