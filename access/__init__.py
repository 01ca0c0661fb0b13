"""Who may call, and as whom."""
