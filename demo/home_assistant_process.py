"""Home Assistant itself, in this process, until told to stop or its parent is gone.

Whoever starts it keeps a pipe open to its standard input. The end of that pipe means
that the parent is gone, however it went, and Home Assistant stops as if asked to.
"""

import logging
import os
import signal
import sys
import threading

from homeassistant.__main__ import main


def _stop_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    # It complains when libturbojpeg is not on the machine; the demo has no cameras.
    logging.getLogger("homeassistant.components.camera.img_util").disabled = True
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    sys.exit(main())
