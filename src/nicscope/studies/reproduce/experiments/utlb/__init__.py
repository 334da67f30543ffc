"""What UTLB published, again."""
