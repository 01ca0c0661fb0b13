"""What judges and users say of replies: scores, feedback, and reports of both."""
