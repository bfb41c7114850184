"""Pictures drawn by hand as SVG, which stretch to the width of the page."""
