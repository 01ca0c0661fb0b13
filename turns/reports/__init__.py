"""What operators read: conversations, prices, and spending, as tables and as JSON."""
