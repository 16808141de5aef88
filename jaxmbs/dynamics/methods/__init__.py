"""Integration methods: their base classes (`method`), and methods with explicit, implicit and adaptive steps."""
