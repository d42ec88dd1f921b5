"""What must hold after every event, in whatever order events come.

``requests.py`` lets requests come, run and go, ``disturbances.py`` changes everything
around them, and ``promises.py`` says what has to be true after every step. What the
scheduler keeps, so that it need not look again, ``recomputed.py`` works out from
scratch. ``expected.py`` follows what each request should be charged, and ``doer.py``
writes every step down, so that the same can be done once more.
"""
