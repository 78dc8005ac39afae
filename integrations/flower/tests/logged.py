"""The ServerApp, which writes its log to the file that DAMPER_FLOWER_LOG names too: Flower keeps it from the SuperLink's output."""

import logging
import os

from damper_flower.server_app import app

__all__ = ["app"]

logging.getLogger("flwr").addHandler(logging.FileHandler(os.environ["DAMPER_FLOWER_LOG"]))
