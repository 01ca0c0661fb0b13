"""Plain values and errors shared by several layers. No Django here."""
