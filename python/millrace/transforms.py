"""The transforms of pictures: a class for each line of the C++ library's table.

Their arguments, attributes and documentation come from the description that the command line and
recipes have too (``millrace train --help rrc``).
"""

from millrace import _core

__all__ = ["Transform", *_core._transforms]

Transform = _core.Transform
globals().update(_core._transforms)
