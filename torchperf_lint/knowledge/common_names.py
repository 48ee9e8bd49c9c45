"""Names of methods that many unrelated classes have: a call by such a name tells nothing about the receiver's class."""

from __future__ import annotations

TENSOR_METHODS = frozenset(
    "abs all allclose any argmax argmin argsort astype backward bool byte ceil clamp clip contiguous cpu cuda "
    "cumsum detach device diag dim divide dot double equal exp expand expand_as fill flatten flip float floor "
    "gather half inner int item long max mean median min multiply nonzero norm normalize numel numpy ones permute "
    "pow prod ravel repeat requires_grad_ reshape round sample scatter select sigmoid sign sin softmax sqrt squeeze "
    "stack std sub subtract tanh to tolist topk transpose unbind unfold unique unsqueeze var where zero zero_ "
    "zeros".split()
)
"""Names of methods of tensors and arrays."""

COMMON_METHODS = TENSOR_METHODS.union(
    # objects, containers, text and files
    "accept acquire add add_argument append apply as_dict as_posix build call cancel capitalize cast check clear "
    "clone close commit connect contains copy count create decode default delete describe difference disable "
    "discard disconnect dispatch dump dumps emit enable encode end endswith enter evict execute exists exit export "
    "extend fetch fileno filter find finish fire flush format from_config from_dict from_file from_json generate "
    "get get_all get_config get_data get_default get_item get_items get_key get_keys get_name get_names get_size "
    "get_type get_value get_values getvalue handle has hash head hide id import_module index info init initialize "
    "insert inspect is_alive is_available is_empty is_file is_set isatty items iterate join keys kill last length "
    "listen load load_from_file loads lock log lower main make map match merge mkdir move name names new next "
    "notify observe off on open parse parse_args peek poll pop popleft post prepare prepend print process publish "
    "push put query raise_for_status read readline readlines receive record recv refresh register release remove "
    "rename render replace report request reset reset_parameters resize resolve restart result resume retrieve "
    "return_value reverse rstrip run save scale schedule search seek send serialize set set_config set_data "
    "set_default set_name set_value setdefault setup show shuffle shutdown size skip sleep sort split start "
    "start_timer startswith stat state stop stop_timer store strip submit subscribe sum summary swap sync tail take "
    "tell terminate test to_dict to_file to_json to_list to_string to_yaml transform translate trigger unlock "
    "unregister update update_config upper use validate value values verify view visit wait walk watch wrap write "
    "writelines yield_ "
    # modules, optimizers, training and data
    "accumulate act add_module add_param_group add_scalar all_gather all_reduce attach augment average barrier "
    "batch batch_decode batch_encode buffers callback children compile compute compute_loss configure crop "
    "detokenize epoch eval evaluate extra_repr featurize fit forward freeze from_pretrained gather_for_metrics "
    "get_batch get_last_lr get_loss get_lr get_model get_parameters get_state global_step infer inference "
    "init_weights initialize_weights load_checkpoint load_from_checkpoint load_state load_state_dict load_weights "
    "log_dict log_metrics log_prob loss lr metric metrics mode model modules named_parameters no_sync "
    "num_parameters optimize parameters plot postprocess predict predict_proba preprocess push_to_hub rollout "
    "save_checkpoint save_model save_pretrained save_state score set_epoch set_lr set_parameters set_state "
    "share_memory state_dict step tokenize train training_step unfreeze unscale_ update_metrics update_parameters "
    "valid validation_step warmup zero_grad".split()
)
"""Names of the Python data model and of its libraries, of tensors and modules, and verbs that any class may have."""

DELEGATED_STEPS = frozenset({"training_step", "validation_step", "test_step", "predict_step"})
"""Steps of frameworks' modules that may hand their batch on to a method of the same name of another object."""
