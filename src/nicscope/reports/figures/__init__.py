"""Figures; each file imports Matplotlib, and is imported by who draws."""
