"""Methods that frameworks call for every batch: who owns them, and which of their parameters are on the device."""

from __future__ import annotations

import re
from typing import NamedTuple


class HookTable(NamedTuple):
    """The per-batch hooks of one kind of class.

    `bases` are last names of the base classes that make a class one of this kind; `roots` are prefixes that the
    qualified base must have; one of the two may be empty, which means any. `placed` are parameters whose tensors the
    framework has moved to the device. `holder` is a parameter whose attributes hold such tensors: one of the loss, and
    others of any form. `evaluates` says that only evaluations call them. `loaded` are parameters that get a batch
    as the loader made it. `selected_by` is a method that selects the events for which the hooks run, `rare_events` are
    those that do not come in every step.
    """

    framework: str
    bases: frozenset[str]
    roots: tuple[str, ...]
    hot: frozenset[str]
    placed: frozenset[str]
    holder: str | None = None
    evaluates: bool = False
    loaded: frozenset[str] = frozenset()
    selected_by: str = ""
    rare_events: frozenset[str] = frozenset()


HELD_LOSS = "loss"
HELD_DATA = ("batch", "outputs")
"""Attributes of a holder that have a tensor, and tensors of any form."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LIGHTNING_MODULE_HOOKS = _words(
    "training_step validation_step test_step predict_step optimizer_step optimizer_zero_grad "
    "configure_gradient_clipping lr_scheduler_step on_before_backward on_after_backward on_before_zero_grad "
    "on_before_optimizer_step on_train_batch_start on_train_batch_end on_validation_batch_start "
    "on_validation_batch_end on_test_batch_start on_test_batch_end on_predict_batch_start on_predict_batch_end "
    "on_before_batch_transfer on_after_batch_transfer transfer_batch_to_device training_step_end "
    "validation_step_end test_step_end"
)
LIGHTNING_STEPS = _words(
    "training_step validation_step test_step predict_step training_step_end validation_step_end test_step_end"
)
"""Hooks whose first parameter is the batch (or the step's output), whatever its name."""

LIGHTNING_BEFORE_TRANSFER = _words("on_before_batch_transfer transfer_batch_to_device")
"""Hooks whose batch is still on the host."""

LIGHTNING_PLACED = _words("batch outputs loss")
"""Parameters of the other hooks that hold tensors on the device."""

_OF_OPENMMLAB = tuple(
    f"{each}." for each in "mmengine mmcv mmdet mmdet3d mmseg mmpretrain mmcls mmpose mmaction".split()
)

HOOK_TABLES = (
    HookTable("fastai", _words("Metric"), ("fastai.",), _words("accumulate"), _words("")),
    HookTable("fastai", _words("Transform"), ("fastai.",), _words("encodes"), _words("")),
    HookTable(
        "Composer",
        _words("Algorithm"),
        ("composer.",),
        _words("apply"),
        _words(""),
        selected_by="match",
        rare_events=_words(
            "INIT BEFORE_LOAD AFTER_LOAD FIT_START FIT_END ITERATION_START ITERATION_END ITERATION_CHECKPOINT "
            "EPOCH_START EPOCH_END EPOCH_CHECKPOINT EVAL_BEFORE_ALL EVAL_START EVAL_END EVAL_AFTER_ALL "
            "EVAL_STANDALONE_START EVAL_STANDALONE_END PREDICT_START PREDICT_END"
        ),
    ),
    HookTable(
        "Composer",
        _words("Callback LoggerDestination"),
        ("composer.",),
        _words(
            "batch_start batch_end before_forward after_forward before_loss after_loss before_backward after_backward "
            "after_train_batch eval_batch_start eval_batch_end eval_before_forward eval_after_forward"
        ),
        _words(""),
        "state",
    ),
    HookTable(
        "torchtnt", _words("Callback"), ("torchtnt.",), _words("on_train_step_start on_train_step_end"), _words("")
    ),
    HookTable("skorch", _words("Callback"), ("skorch.",), _words("on_batch_begin on_batch_end"), _words("")),
    HookTable("Stable-Baselines3", _words("BaseCallback"), ("stable_baselines3.",), _words("_on_step"), _words("")),
    HookTable("Keras", _words("Metric"), ("keras.",), _words("update_state"), _words("y_true y_pred")),
    HookTable(
        "Keras",
        _words("Callback"),
        ("keras.",),
        _words("on_train_batch_begin on_train_batch_end on_test_batch_begin on_test_batch_end"),
        _words(""),
    ),
    HookTable("Lightning", _words("Callback"), ("lightning.",), LIGHTNING_MODULE_HOOKS, LIGHTNING_PLACED),
    HookTable("Lightning", _words("LightningDataModule"), (), _words("on_after_batch_transfer"), _words("batch")),
    HookTable("Lightning", _words("LightningDataModule"), (), LIGHTNING_BEFORE_TRANSFER, _words("")),
    HookTable(
        "the Trainer",
        _words("Trainer Seq2SeqTrainer SFTTrainer DPOTrainer PPOTrainer"),
        ("transformers.", "trl."),
        _words("compute_loss compute_loss_func training_step prediction_step preprocess_logits_for_metrics"),
        _words("inputs logits labels outputs"),
    ),
    HookTable(
        "the Trainer",
        _words("TrainerCallback"),
        (),
        _words("on_step_begin on_step_end on_substep_end on_pre_optimizer_step on_optimizer_step on_prediction_step"),
        _words(""),
    ),
    HookTable(
        "fastai",
        _words("Callback"),
        ("fastai.",),
        _words(
            "before_batch after_pred after_loss before_backward after_backward before_step after_step after_batch "
            "after_cancel_batch"
        ),
        _words(""),
    ),
    HookTable(
        "Composer",
        _words("ComposerModel ComposerClassifier HuggingFaceModel"),
        ("composer.",),
        _words("loss update_metric eval_forward forward"),
        _words("batch outputs targets"),
    ),
    HookTable(
        "MMEngine",
        _words("BaseModel BaseDetector SingleStageDetector TwoStageDetector BaseDenseHead AnchorHead AnchorFreeHead"),
        _OF_OPENMMLAB,
        _words("train_step val_step loss loss_by_feat forward"),
        _words("batch_inputs x cls_scores bbox_preds"),
    ),
    HookTable(
        "MMEngine",
        _words("BaseModule BaseRoIHead"),
        ("mmengine.", "mmdet.", "mmseg.", "mmpretrain."),
        _words("loss loss_by_feat loss_and_target forward"),
        _words("cls_score cls_scores bbox_pred bbox_preds labels label_weights bbox_targets bbox_weights"),
    ),
    HookTable(
        "MMEngine",
        _words(""),
        ("mmdet.models.", "mmseg.models.", "mmpretrain.models.", "mmcls.models.", "mmpose.models.", "mmaction.models."),
        _words("loss loss_by_feat predict predict_by_feat forward"),
        _words("x feats inputs cls_score cls_scores bbox_pred bbox_preds"),
    ),
    HookTable(
        "MMEngine",
        _words("BaseMetric"),
        ("mmengine.",),
        _words("process"),
        _words("data_batch data_samples"),
        evaluates=True,
    ),
    HookTable(
        "MONAI",
        _words("CumulativeIterationMetric IterationMetric"),
        ("monai.",),
        _words("__call__ _compute_tensor"),
        _words("y_pred y"),
    ),
    HookTable(
        "MMEngine",
        _words("Hook"),
        ("mmengine.", "mmcv."),
        _words("before_train_iter after_train_iter"),
        _words("outputs"),
    ),
    HookTable(
        "Detectron2",
        _words("SimpleTrainer TrainerBase HookBase"),
        ("detectron2.",),
        _words("run_step before_step after_step"),
        _words(""),
    ),
    HookTable(
        "torchtnt",
        _words("TrainUnit EvalUnit AutoUnit"),
        ("torchtnt.",),
        _words("train_step eval_step compute_loss"),
        _words(""),
    ),
    HookTable(
        "skorch",
        _words("NeuralNet NeuralNetClassifier"),
        ("skorch.",),
        _words("train_step_single train_step get_loss"),
        _words(""),
    ),
    HookTable(
        "Keras", _words("Model"), ("keras.",), _words("train_step test_step predict_step compute_loss"), _words("")
    ),
    HookTable(
        "generate()",
        _words("PreTrainedModel GenerationMixin"),
        (),
        _words("prepare_inputs_for_generation"),
        _words("input_ids attention_mask inputs_embeds"),
    ),
    HookTable(
        "BasicSR",
        _words(
            "BaseModel SRModel SRGANModel ESRGANModel EDVRModel SwinIRModel StyleGAN2Model HiFaceGANModel RIDNetModel "
            "VideoBaseModel VideoGANModel VideoRecurrentModel VideoRecurrentGANModel"
        ),
        ("basicsr.",),
        _words("feed_data optimize_parameters"),
        _words(""),
        loaded=_words("data"),
    ),
    HookTable(
        "fairseq",
        _words("FairseqTask FairseqCriterion LegacyFairseqTask LegacyFairseqCriterion"),
        ("fairseq.",),
        _words("train_step valid_step inference_step forward compute_loss reduce_metrics"),
        _words("sample net_output"),
    ),
)

FUNCTION_KEYWORDS = {
    "Trainer": _words("compute_loss_func preprocess_logits_for_metrics"),
    "Seq2SeqTrainer": _words("compute_loss_func preprocess_logits_for_metrics"),
    "create_supervised_trainer": _words("prepare_batch model_fn loss_fn model_transform output_transform"),
    "create_supervised_evaluator": _words("prepare_batch model_fn model_transform output_transform"),
}
"""Functions that are passed to a framework by keyword, and called for every batch."""

CALLERS_OF_ARGUMENTS = _words("map starmap vmap checkpoint multi_apply tree_map")
"""Functions that call their argument before they return."""

MINIMIZERS = _words(
    "minimize fmin fmin_bfgs fmin_cg fmin_l_bfgs_b fmin_ncg fmin_powell fmin_slsqp fmin_tnc basinhopping least_squares "
    "differential_evolution dual_annealing shgo root fsolve leastsq brute direct"
)
"""Functions of `scipy.optimize` that call their first argument, `fun` or `func`, for each point of their search."""

MINIMIZED = ("fun", "func")
"""How that argument is called."""

FORWARD_HOOK_REGISTRARS = _words(
    "register_forward_hook register_forward_pre_hook register_full_backward_hook register_backward_hook "
    "register_full_backward_pre_hook register_post_accumulate_grad_hook register_hook"
)

GRADIENT_BUCKET = "GradBucket"
"""The annotation that identifies a communication hook of DistributedDataParallel: one call per bucket of gradients."""

BUCKET_TENSOR = "buffer"
BUCKET_TENSORS = _words("gradients parameters")

HOT_EVENTS = re.compile(
    r"^(get_)?(on_)?(train_|training_)?(batch|step|iter|iteration|forward|backward|optimizer_step)"
    r"_(start|started|begin|end|ended|complete|completed|done)$"
    r"|^(after|before|post|pre)_(train_|training_)?(batch|step|iter|iteration|backward|optimizer_step|forward)$",
    re.IGNORECASE,
)
"""Names of events that happen in every step: `Events.ITERATION_COMPLETED` of ignite, `"batch_end"` of an engine."""

EVENT_TAKERS = _words(
    "add_event_handler add_handler add_listener add_callback register_handler register_event subscribe"
)
"""Methods that take an event and the function that handles it."""

MODULE_BASES = _words(
    "Module LightningModule PreTrainedModel ModelMixin ComposerModel BaseModule GenerationMixin PyTorchModelHubMixin "
    "Sequential ModuleList ModuleDict ObserverBase FakeQuantizeBase FakeQuantize BaseDataPreprocessor "
    "ImgDataPreprocessor BaseTTAModel"
)

STAR_IMPORTS = {
    "torch": "Tensor nn optim tensor zeros ones cat stack device no_grad randn rand arange full empty "
    "from_numpy sum mean",
    "torch.nn": "Module Linear Conv1d Conv2d Conv3d ReLU Sequential ModuleList Parameter DataParallel CrossEntropyLoss "
    "MSELoss L1Loss BCELoss BCEWithLogitsLoss NLLLoss Dropout BatchNorm1d BatchNorm2d LayerNorm Embedding functional",
    "torch.nn.functional": "cross_entropy relu softmax log_softmax mse_loss nll_loss dropout interpolate pad "
    "binary_cross_entropy_with_logits",
    "torch.utils.data": "DataLoader Dataset TensorDataset random_split Subset DistributedSampler",
    "torch.optim": "SGD Adam AdamW RMSprop lr_scheduler",
    "fastai.vision.all": "Callback Learner Metric Transform",
    "fastai.basics": "Callback Learner Metric Transform",
    "torchmetrics": "MeanMetric SumMetric MaxMetric MinMetric CatMetric Accuracy MetricCollection",
}
"""The names that a star import of a known module binds, as far as rules and values need them."""
