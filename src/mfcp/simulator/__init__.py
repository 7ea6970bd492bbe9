"""What happens inside clusters: jobs that queue, run, are preempted and fail, under one scheduling policy a cluster."""
