"""Files of users: uploads, their storage, and file parts of messages."""
