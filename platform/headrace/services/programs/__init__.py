"""What runs as a service, each prepared for its first start."""
