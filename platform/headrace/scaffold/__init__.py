"""What a new project begins with."""
