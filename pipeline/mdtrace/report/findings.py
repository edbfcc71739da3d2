"""What to try first: findings from the metrics, ranked by the time to gain. Pure: facts in, findings out.

A gain is the share of the steps' time (without steps: of the capture's) that would go if the loss went
altogether: an upper bound. Gains do not add up: the same time may be lost to two causes.
"""

from mdtrace.report import losses, work
from mdtrace.report.facts import Facts
from mdtrace.report.finding import Confidence, Finding

__all__ = ["Finding", "findings"]

WORTH = 0.01  # a finding must be worth this share of the time
TRUST: dict[Confidence, float] = {"high": 1.0, "medium": 0.75, "low": 0.5}  # for the order alone
MAKERS = (*losses.MAKERS, *work.MAKERS)


def findings(facts: Facts) -> list[Finding]:
    """All findings worth 1 % of the time or more, the most to gain first, less sure ones counting less."""
    found = [finding for maker in MAKERS if (finding := maker(facts)) is not None]
    return sorted((f for f in found if f.gain >= WORTH), key=lambda f: -f.gain * TRUST[f.confidence])
