"""Integration methods: what one is (`method`), and those with explicit, implicit and adaptive steps."""
