"""The page of a reproduction, one file that needs nothing else.

``markup``: elements, whose text cannot become markup.  ``figures``: printed and found side by side.
``page``: what stands where; ``page.css`` and ``page.js`` are put into it.
"""
