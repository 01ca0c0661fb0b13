"""How Django writes instants where nobody says how: the tables."""
