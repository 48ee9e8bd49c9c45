"""torchmetrics: which classes are metrics, and how each update behaves. Evidence: runs of 0.11 to 1.9."""

from __future__ import annotations

PACKAGE = "torchmetrics"

AGGREGATORS = frozenset("MeanMetric SumMetric MaxMetric MinMetric CatMetric RunningMean RunningSum".split())
"""Subclasses of BaseAggregator: they check every update for NaN unless `nan_strategy="disable"`."""

AVERAGES = frozenset({"MeanMetric", "RunningMean"})
"""Aggregators whose updates take a weight; with `nan_strategy="disable"` 1.6.2 to 1.9.0 replace it by ones."""

FIRST_IS_WINDOW = frozenset({"RunningMean", "RunningSum"})
"""Aggregators whose first parameter is `window`, the second `nan_strategy`; for all others it is the first."""

NAN_CHECK = "_cast_and_nan_check_input"
"""The method of aggregators that checks for NaN; a subclass may override it with other checks."""

CASTS_ITSELF_SINCE = ">=1.0.1"
"""`MeanMetric.update` copies numbers to the device before it calls that method."""

COLLECTION = "torchmetrics.MetricCollection"

BASE = "torchmetrics.Metric"

UPDATE = "update"
"""The method of every metric that is called for each batch: by the program, or by `forward`."""

INPUTS = frozenset("pred preds prediction predictions target targets logits output outputs label labels".split())
"""Parameters of an update that are tensors by torchmetrics' naming, annotated or not."""

DISABLE_SINCE = ">=1.6.2"
"""`nan_strategy="disable"` exists, and MeanMetric's default weight is no longer a copied 1.0."""

IGNORES_WEIGHT = ">=1.6.2,<1.9.1"
"""With `nan_strategy="disable"` the weights of means are replaced by ones; seen from 1.6.2 to 1.9.0, the latest."""

CASTS_ITSELF = AGGREGATORS - FIRST_IS_WINDOW
"""Aggregators that cast and check their arguments; the running ones leave that to a metric that they wrap."""

CASTS_WEIGHTS_TOO = ">=1.0.1"
"""`_cast_and_nan_check_input(x, weight=None)` returns a pair; before, it mapped a tensor to one. Read up to 1.9.0."""

CASTS_TO_FLOAT = "<1.3.2"
"""Values are cast to float32, whatever `set_dtype` says."""

CASTS_TO_ITS_DTYPE = ">=1.3.2"
"""Values are cast to the metric's dtype, which is an attribute since then: float32 by default."""

SENDS_DEFAULT_WEIGHT = "<1.6.2"
"""The default weight of means is the number 1.0, which every update copies to the device."""

UPDATES_TWICE = frozenset(
    "MaxMetric MinMetric BLEUScore SacreBLEUScore ROUGEScore CHRFScore CLIPScore PearsonCorrCoef ConcordanceCorrCoef "
    "KendallRankCorrCoef NormalizedRootMeanSquaredError MeanAveragePrecision IntersectionOverUnion "
    "GeneralizedIntersectionOverUnion DistanceIntersectionOverUnion CompleteIntersectionOverUnion".split()
)
"""`full_state_update` is True: a call of the metric updates once for the sum of all and once for the batch."""

KEEPS_BATCH_VALUES = frozenset({"MinMaxMetric"})
"""Metrics whose `compute` stores its result: each call adds the value of its batch to the extremes."""

_COUNTED = (
    "Accuracy Precision Recall F1Score FBetaScore StatScores Specificity HammingDistance ConfusionMatrix JaccardIndex "
    "CohenKappa MatthewsCorrCoef"
).split()

ADDS_EXACTLY = frozenset(
    {prefix + name for name in _COUNTED for prefix in ("", "Binary", "Multiclass", "Multilabel")}
    | set("MeanMetric SumMetric MaxMetric MinMetric MeanSquaredError MeanAbsoluteError".split())
)
"""Each update adds one number (or whole numbers) to each state: adding a batch's own sum later rounds alike."""

SHARED_STATES = (
    frozenset("Accuracy Precision Recall F1Score FBetaScore Specificity StatScores HammingDistance".split()),
    frozenset("ConfusionMatrix JaccardIndex CohenKappa MatthewsCorrCoef".split()),
    frozenset("AUROC AveragePrecision ROC PrecisionRecallCurve".split()),
)
"""Classification metrics with the same state if created alike: a collection updates them once (1.4, 1.9)."""

TASKS = ("Binary", "Multiclass", "Multilabel")
"""Prefixes of a metric's name in the classes of `torchmetrics.classification`."""

ONLY_FOR_COMPUTE = frozenset("beta normalize weights min_fpr max_fpr zero_division validate_args".split())
"""Arguments that do not affect the state of such a metric."""

_SUBMODULES = frozenset(
    "aggregation classification regression audio image text detection retrieval functional nominal clustering "
    "multimodal wrappers shape segmentation collections metric".split()
)
_NOT_METRICS = frozenset("MetricTracker BootStrapper".split())


def metric_class(ref: str) -> str | None:
    """`torchmetrics.MeanMetric` for any public path to that class; None if `ref` is no metric class."""
    root, _, rest = ref.partition(".")
    if root != "torchmetrics" or not rest:
        return None
    *between, name = rest.split(".")
    if not name[:1].isupper() or "functional" in between or name in _NOT_METRICS:
        return None
    if between and between[0] not in _SUBMODULES:
        return None
    return "torchmetrics." + name
