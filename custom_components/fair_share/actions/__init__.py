"""What the actions do, one file for each kind of them."""
