"""Where the bytes of files are: a folder or a bucket of S3."""
