"""What the bench prints: a figure beside its target, met or not, and notes below it."""

FIGURES = []


def figure(name, value, target, met, unit="", counts=False):
    """counts: the exit status follows it."""
    FIGURES.append((name, met, counts))
    word = "met    " if met else "NOT MET"
    print(f"  {word}  {name:<72} {value:>9}{unit:<7} target {target}", flush=True)


def note(text):
    print(f"           {text}", flush=True)


def at_most(name, value, limit, unit, counts=False, digits=1):
    figure(name, f"{value:.{digits}f}", f"≤ {limit}{unit}", value <= limit, unit, counts)


def at_least(name, value, limit, counts=True):
    figure(name, f"{value:.3f}", f"≥ {limit:.3g}", value >= limit, "", counts)


def exactly(name, value, wanted):
    """A count: the exit status follows it."""
    figure(name, str(value), f"= {wanted}", value == wanted, "", True)


def missed():
    return [name for name, met, _ in FIGURES if not met]


def failed():
    return [name for name, met, counts in FIGURES if counts and not met]
