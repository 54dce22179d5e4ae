"""How long each stage computes, beside the mean of the stages and beside its prediction."""

COMPUTES = ("F", "R", "B", "I", "W", "norm", "clip", "total", "reduce", "update", "step")


def stage_rows(run):
    """Rows of a run's stages from its rows of instructions (figures.py), the longest first.

    computes_ms is per step; of_mean is that over the mean of the stages; predicted_ms and planned_of_mean are the same of the
    prediction, of_predicted is computes_ms / predicted_ms. These three are None if nothing was predicted.
    """
    rows = {}
    for it in run["instructions"]:
        if it["op"] not in COMPUTES or it["stage"] < 0:
            continue
        row = rows.setdefault(it["stage"], {"stage": it["stage"], "computes_ms": 0.0, "predicted_ms": 0.0})
        row["computes_ms"] += it["total_ms"]
        if it.get("predicted_ms") is None:
            row["predicted_ms"] = None
        elif row["predicted_ms"] is not None:
            row["predicted_ms"] += it["count"] * it["predicted_ms"]
    rows = sorted(rows.values(), key=lambda row: (-row["computes_ms"], row["stage"]))
    predicted = [row["predicted_ms"] for row in rows]
    for row in rows:
        row["of_mean"] = _ratio(row["computes_ms"], sum(other["computes_ms"] for other in rows) / len(rows))
        row["of_predicted"] = _ratio(row["computes_ms"], row["predicted_ms"])
        whole = None if None in predicted else sum(predicted) / len(rows)
        row["planned_of_mean"] = _ratio(row["predicted_ms"], whole)
    return rows


def _ratio(value, whole):
    return value / whole if value is not None and whole else None
