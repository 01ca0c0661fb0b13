"""Tasks that run a turn again on other variants of its experiment, unseen by users."""
