"""Text and HTML of TensorDicts: `text` is `repr`, with the print `options`; `html` is for notebooks;
`summary` is a table; `rows` lists the entries for the last two. `page` writes HTML pages and escapes text for
them.
"""
