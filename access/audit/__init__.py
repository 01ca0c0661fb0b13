"""Store and list who changed what, when and from where."""
