"""`coulisse chat`: a conversation with an agent of the running server."""
