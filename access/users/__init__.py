"""Who a request belongs to: its caller, and its user's id, derived from their name."""
