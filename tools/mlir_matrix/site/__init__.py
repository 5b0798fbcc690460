"""Write the static pages that people look at each morning."""
