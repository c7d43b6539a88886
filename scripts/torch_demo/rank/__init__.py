"""What runs inside of the ranks of a demo job."""
