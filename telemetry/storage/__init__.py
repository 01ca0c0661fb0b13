"""How turns and costs are written to the tables, read back, and deleted by age."""
