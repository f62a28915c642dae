"""Text with positions, its words, and amounts as people write them."""
