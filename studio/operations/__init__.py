"""Pages for operators' actions: playground, triggers, sidecars, API tokens, studio
accounts and database tables."""
