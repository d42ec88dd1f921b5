# At run time Home Assistant serves this name with its own engine (see probatio.compat);
# so it is for the type checker, else its schemas and Home Assistant's do not match.
from probatio import *  # noqa: F403
