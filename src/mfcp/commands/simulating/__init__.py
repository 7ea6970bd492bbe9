"""What `mfcp simulate` is made of."""
