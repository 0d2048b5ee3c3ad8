"""The parts of tools/report.py: reading results, drawing pictures, the sections of the page, the page itself."""
