"""Names by which libraries' classes and methods tell their role: metrics, meters, callbacks, steps."""

from __future__ import annotations

import re

TESTS = re.compile(r"^_*Tests?(?![a-z])|Tests?$|TestCase$")
"""Classes whose methods a test runner calls, once each."""

METRIC_UPDATES = frozenset("update add_batch process_batch update_batch".split())
METRIC_RESETS = frozenset("reset clear".split())
METRIC_RESULTS = frozenset("compute result results get_metric evaluate average avg value summary summarize".split())

BATCH_HOOKS = frozenset(
    "on_train_batch_start on_train_batch_end on_batch_start on_batch_begin on_batch_end on_step_begin on_step_end "
    "on_train_step_start on_train_step_end on_iteration_start on_iteration_end on_backward_end on_after_backward "
    "before_batch after_batch after_pred after_loss before_backward after_backward before_train_iter after_train_iter "
    "before_iter after_iter".split()
)
HOOK_OWNERS = re.compile(r"(Callback|Hook)s?(Base|Mixin)?$")
HOOK_TENSORS = frozenset("outputs output loss logits preds predictions".split())

STEPS = frozenset(
    "training_step train_step train_on_batch train_batch train_one_batch train_one_step training_batch "
    "validation_step valid_step eval_step test_step fit_batch evaluate_batch run_step".split()
)
STEP_OWNERS = re.compile(
    r"(Trainer|Learner|Task|Runner|Agent|Algorithm|Algo|System|Module|Model|Engine|Step|Loop)(?![a-z])"
)

BACKWARDS = ("backward", "manual_backward")
OPTIMIZERS = re.compile(r"optim|(^|_)opts?(_|\d|$)|scaler", re.IGNORECASE)
"""Names of optimizers, and of what takes their steps."""
ONE_STEP_ALONE = re.compile(
    r"(^|_)(tests?|check|dummy|demo|example|tutorial|sanity|smoke|verify|profile|bench\w*|warm\w*|init\w*|set_?up|main|epoch|"
    r"fit|finish|final\w*)(_|$)|^test[A-Z]"
)
"""Names of functions that take a single step to try something, at the start, at the end, or once per epoch."""

AVERAGES = re.compile(r"(?<![A-Z])EMA(?![A-Z]([A-Z]|$))|Ema(?![a-z])|MovingAverage|PolyakAverag")
AVERAGE_UPDATES = frozenset("update step update_parameters".split())

LOSSES = re.compile(r"^(?!.*(Stop|Terminat|Converge)).*(Loss|Criterion)$")
LOSS_CALLS = frozenset("__call__ compute_loss calculate_loss get_loss".split())

PREDICTED = frozenset(
    "pred preds prediction predictions y_pred y_hat output outputs logits input inputs scores estimate".split()
)
EXPECTED = frozenset("target targets label labels y_true gt truth ground_truth groundtruth reference".split())
OF_ALL_DATA = re.compile(r"average_precision|mean_ap|(^|_)(map|auc|auroc|roc)(_|$)|evaluate|summar|plot|show")
"""Names of functions on what a whole evaluation has gathered."""
