"""What the demo and the live tests bring along."""
