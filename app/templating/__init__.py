"""Templates of prompts: MiniJinja with bounds, and the schemas of what they are rendered with."""
