"""Count requests, tokens and money, and enforce limits and budgets (`limits:`)."""
