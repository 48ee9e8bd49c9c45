"""Functions that work on the host only: their arguments have to be copied there in every step."""

from __future__ import annotations

NEEDS_HOST = frozenset(
    "pack_padded_sequence batch_decode decode encode tokenize from_numpy linear_sum_assignment fromarray to_pil_image "
    "compute_metrics eval_map evaluate_predictions Popen run_coco_eval coco_evaluation put send send_object "
    "split split_with_sizes tensor_split".split()
)
"""Take host data: text decoding, assignment problems, images, sizes of parts, queues to other processes."""

WRITES_OUT = frozenset(
    "save savetxt savez savez_compressed save_image imsave imwrite imshow dump dumps write writerow writerows "
    "write_video to_csv to_json save_pretrained add_audio add_video add_image add_images add_figure add_histogram "
    "add_embedding plot scatter hist show log_image savefig Image Histogram Table create_dataset memmap Video".split()
)
"""Save, plot or export their arguments: a loop that writes out results cannot keep them on the device."""

HOST_LIBRARIES = frozenset("numpy scipy sklearn skimage cv2 PIL pycocotools pandas matplotlib json csv".split())
"""Work on the host only; by the first part of a function's qualified name."""

PUTS_TOGETHER = frozenset("array asarray asanyarray ascontiguousarray concatenate stack vstack hstack append".split())
"""Functions of these libraries that only make one array of their argument."""

WORKING_LIBRARIES = HOST_LIBRARIES - {"numpy", "json", "csv"}
"""Those of them whose functions take far longer than a copy from the device."""

WORKS = frozenset(
    "batch_decode linear_sum_assignment fromarray to_pil_image compute_metrics eval_map evaluate_predictions "
    "run_coco_eval coco_evaluation imsave imwrite imread save_image write_video decode_predictions".split()
)
"""Functions of any owner that do: text, images, assignment problems, scores."""

ARITHMETIC = frozenset(
    "abs add all any arange argmax argmin argsort array asarray ascontiguousarray bincount clip concatenate copy "
    "cumsum diff divide dot empty equal exp expand_dims eye float32 float64 full histogram int32 int64 isnan isfinite "
    "log logical_and logical_not logical_or max maximum mean median min minimum multiply nan_to_num nanmean nonzero "
    "norm ones ones_like percentile power prod quantile reshape round sort sqrt square squeeze stack std subtract sum "
    "take tile transpose unique unravel_index var where zeros zeros_like".split()
)
"""Functions of NumPy that torch has for the device."""
