"""The engine gh-ost: a real gh-ost under our beats. It always starts with its cut-over postponed; we give the cut-over.

What stands where: ``binary`` finds a gh-ost that may be used, ``command`` builds what it is called with, ``place``
keeps its files, ``process`` starts and ends it, ``control`` speaks over its socket, ``status`` reads its lines, and
``tool`` joins them for ``drivers.ddl.copying``, which knows no gh-ost. Another tool of this kind is one more
``ports.CopyTool``.
"""
