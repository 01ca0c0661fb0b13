"""Plain values and errors that two layers share. No Django here."""
