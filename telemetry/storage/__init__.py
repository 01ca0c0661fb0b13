"""Writes turns and costs to the tables, reads them back, and deletes them by age."""
