"""Figures; each file imports Matplotlib, and is imported only when a figure is drawn."""
