"""Who stays: members and groups that would do better elsewhere leave, and what is left; who gains by false names.

`blocking_group` is the group that gains most by leaving, `participation` plays departures until nobody leaves,
`least_core` how far all groups can be kept from leaving,
`splitting` what posing as several, or as one, gains. The searches themselves are in `fedpact.programs`.

May use: utils, federation, shapley, programs, certificates, deals, mechanisms.
"""

from fedpact.stability.blocking_group import BlockingGroup, blocking_group
from fedpact.stability.least_core import LeastCore, least_core
from fedpact.stability.participation import StableFederation, stable_federation
from fedpact.stability.splitting import merging_gain, splitting_gain

__all__ = [
    "BlockingGroup",
    "LeastCore",
    "StableFederation",
    "blocking_group",
    "least_core",
    "merging_gain",
    "splitting_gain",
    "stable_federation",
]
