"""What is stored of each user: the list of users, export, erasure, and the tables of
other apps.
"""
