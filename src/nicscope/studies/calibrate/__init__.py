"""Fit the constants of delivery that no paper prints to those numbers that one does.

``anchors`` says which published numbers are fitted, ``constants`` what may change, ``fit``
does it and ``result`` sets every number beside what comes out, fitted or predicted.
"""
