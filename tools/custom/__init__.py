"""Custom skills: Markdown files whose SQL runs over the canonical tables, in a process that can reach nothing else."""
