"""Does an agent stay on what its tools returned? Inspect tasks, scripted agents, scorers, and a corpus of answers."""
