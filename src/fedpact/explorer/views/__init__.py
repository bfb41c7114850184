"""The parts of the page as HTML; each is a function of what it shows."""
