"""The web console: pages that show a store and, where that is allowed, act on it.

A page is a view (`views/`) that asks operations of the REST door in this process (`asking.py`) and a template
(`templates/`) that shows what they gave. So every page is checked by the rules that REST is checked by, and
the room touches no storage. What it sends runs no script but its own and fetches nothing from other hosts.
Needs the extra `console`.
"""
