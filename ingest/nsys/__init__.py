"""nsys reports: which nsys there is, what a report says of itself, and the export of one by the other."""
