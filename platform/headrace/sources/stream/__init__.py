"""What a source sends: its topics, messages and transactions, and what cannot be applied of them."""
