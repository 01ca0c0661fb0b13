"""What happened: the record of every turn."""
