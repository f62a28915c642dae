"""What a commit says, and what its records tell: plain data."""
