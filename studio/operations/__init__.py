"""Pages for operators: playground, tasks, triggers, sidecars, API tokens, studio
accounts and database tables."""
