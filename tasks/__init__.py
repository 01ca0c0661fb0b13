"""Work in the background: a queue of rows, and who works it off."""
