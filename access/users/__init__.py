"""The caller of a request, and the id of the user that it names."""
