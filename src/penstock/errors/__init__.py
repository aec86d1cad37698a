"""Every error Penstock raises: one tree, a family in each file.

The first line of a class answers four questions: its `code` (stable; a removed code is retired, never given
to another error), whose `fault` it is, whether the same call is `retryable`, and whether the connection it
came over `closes`. Messages name the thing, the value and the remedy. The tree knows no HTTP status, exit
code or Kafka number: each face has its own `ErrorTable`.
"""

from .base import *  # noqa: F403
from .groups import *  # noqa: F403
from .log import *  # noqa: F403
from .pipelines import *  # noqa: F403
from .requests import *  # noqa: F403
from .settings import *  # noqa: F403
from .stores import *  # noqa: F403
from .values import *  # noqa: F403
