"""What `make demo-web` is made of."""
