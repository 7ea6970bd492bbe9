"""What methods learn from and are judged on: settings of clusters, splits of tasks, features, rounds."""
