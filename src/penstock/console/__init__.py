"""The web console: pages that show a store and, where allowed, act on it.

A page is a view (`views/`), which calls operations of the REST API in this process (`visit.py`), and a template
(`templates/`), which renders their answers. So every page obeys the access rules of REST, and the room touches no
storage. A page runs only the scripts of this site and fetches nothing from other hosts. Needs the extra `console`.
"""
