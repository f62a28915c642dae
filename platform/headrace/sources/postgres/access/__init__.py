"""What a database must let headrace and its connector do, and the SQL that lets them."""
