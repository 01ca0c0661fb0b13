"""Facts about users: storage, updates, reconciliation, and their state at a past
time."""
