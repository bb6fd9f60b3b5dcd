"""What several skills measure alike, so that no two disagree: busy time, gaps, iterations, paths of ranges."""
