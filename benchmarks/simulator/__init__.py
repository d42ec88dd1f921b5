"""A model of a continuous-batching LLM engine on a virtual clock.

Ten minutes of load take seconds, and the same workload always gives the same numbers.
Read in this order: ``job`` (the words), ``profile`` (how long a step takes), ``memory``
and ``prefix_cache`` (what an engine can hold), ``engine`` (what every engine offers),
``chunked`` (an engine as it comes, vLLM's way), ``artifact`` with ``schedulers`` (the
engine of the published measurements), ``front`` and ``queue_front`` (a queue in front
of it), ``run`` (the clock), ``metrics`` (the numbers), ``suites`` and ``rows`` (what is
simulated), ``published`` (what was measured).

A household instead of a published workload: ``scenario`` (who asks for what),
``machine`` (the server at home), ``slot_front`` and ``plain_orders`` (the queues of
others), ``watch`` (an onlooker), ``household_run`` (all of it together), ``targets``
(what policies aim at).
"""
