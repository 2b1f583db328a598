"""Files to copy: a whole index, a whole clusterer and a whole monitor, each as small as it can be.

Copy the file into `icvi_jax/indices`, `clusterers` or `monitors`, give the class another name, and add one line to the
`listing` of that folder. Nothing else has to know: the catalogue, the command, the documentation and the tests of all
laws find it there.
"""
