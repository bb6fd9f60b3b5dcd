"""The skills, one module each in a folder per category, and the registry that makes tools of them."""
