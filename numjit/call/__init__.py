"""One call: its arguments bound and read, planned, built, run, and repeated."""
