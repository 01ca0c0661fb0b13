"""The studio under `/admin/`: its pages, and the access to them."""
