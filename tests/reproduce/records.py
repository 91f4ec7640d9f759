"""Records of runs that were never trained."""


def record(value, std=0.0):
    """With the accuracy ``value`` and all other scores a hundredth of it."""
    accuracy = {"mean": value, "std": std, "values": [value]}
    others = {
        name: {"mean": value / 100, "std": 0.0, "values": []} for name in ("nmi", "homogeneity", "sim@5", "sim@10")
    }
    tasks = {"classification": {"accuracy": accuracy}, "clustering": others, "similarity": others}
    return {"last-epoch": tasks, "best-epoch": tasks}
