"""What a platform predicts and decides with: one trained method on all clusters, as a folder that is verified."""
