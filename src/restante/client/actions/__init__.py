"""Actions over a link: asked for, waited for, and the poison of a group."""
