"""Models as JSON: elements (`elements`), functions (`expressions`), the whole file (`document`) and its schema."""
