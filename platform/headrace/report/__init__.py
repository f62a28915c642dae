"""One HTML page that shows how a warehouse does: for a person who was not there."""
