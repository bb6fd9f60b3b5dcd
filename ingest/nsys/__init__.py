"""NVIDIA's own exporter: what is known of a report without it, which nsys there is, and how it is run."""
