"""A bottleneck adapter in a small BERT of random weights, trained by AdapterTrainer as its documentation shows."""

import numpy as np
import torch
from adapters import AdapterTrainer, AutoAdapterModel
from datasets import Dataset
from transformers import BertConfig, EvalPrediction, PrinterCallback, TrainingArguments, set_seed

set_seed(0)
rng = np.random.default_rng(0)
config = BertConfig(
    vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=2
)
model = AutoAdapterModel.from_config(config)
model.add_adapter("toy", config="seq_bn")
model.add_classification_head("toy", num_labels=2, id2label={0: "low", 1: "high"})
model.train_adapter("toy")


def dataset(size):
    ids = rng.integers(5, 50, (size, 12))
    mask = np.arange(12) < rng.integers(6, 13, (size, 1))
    labels = (ids[:, 0] > 27).astype(int)
    data = Dataset.from_dict({"input_ids": ids, "attention_mask": mask.astype(int), "labels": labels})
    data.set_format(type="torch", columns=["input_ids", "attention_mask", "labels"])
    return data


def compute_accuracy(p: EvalPrediction):
    return {"acc": float((np.argmax(p.predictions, axis=1) == p.label_ids).mean())}


training_args = TrainingArguments(
    output_dir="out",
    learning_rate=1e-2,
    num_train_epochs=2,
    per_device_train_batch_size=8,
    per_device_eval_batch_size=8,
    logging_steps=4,
    eval_strategy="epoch",
    save_strategy="epoch",
    overwrite_output_dir=True,
    remove_unused_columns=False,
    report_to="none",
    disable_tqdm=True,
)
trainer = AdapterTrainer(
    model=model,
    args=training_args,
    train_dataset=dataset(64),
    eval_dataset=dataset(32),
    compute_metrics=compute_accuracy,
)
trainer.remove_callback(PrinterCallback)  # it prints times
trainer.train()
kept = "loss", "grad_norm", "learning_rate", "eval_loss", "eval_acc"
history = [{k: v for k, v in each.items() if k in kept} for each in trainer.state.log_history]
with torch.no_grad():
    logits = torch.from_numpy(trainer.predict(dataset(16)).predictions)
results = {"history": history, "logits": logits, "state": dict(model.state_dict())}
