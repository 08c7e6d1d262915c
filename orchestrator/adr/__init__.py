"""The decision record of a contract, as a page in one of two languages. Pure.

One structure, two word tables: a section never knows in which language it is written, and a language never knows what
a page is made of.
"""
