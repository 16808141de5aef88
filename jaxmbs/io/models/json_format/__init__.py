"""Models as JSON: elements and functions as data (`elements`, `expressions`), the whole file (`document`), its schema."""
