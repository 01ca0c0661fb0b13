"""What is seen in a browser under `/admin/`: who may see it, and the pages."""
