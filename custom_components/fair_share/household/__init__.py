"""The household: who asks, what they may use, what they have used.

Stands between the doors (platforms, flows, agents) and the layers below them
(``engines``, ``admission``).
"""
