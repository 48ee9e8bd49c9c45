"""Few-shot text classification with setfit's Trainer, as its documentation shows, on a small random encoder."""

import contextlib
import random
import sys

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, models
from setfit import SetFitHead, SetFitModel, Trainer, TrainingArguments
from transformers import BertConfig, BertModel, BertTokenizer, PrinterCallback

random.seed(0)
torch.manual_seed(0)
good, bad = ["great", "fine", "lovely", "superb"], ["awful", "poor", "boring", "bad"]
words = ["film", "plot", "actor", "scene", "the", "was", "and"]
with open("vocab.txt", "w") as file:
    file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *good, *bad]))
config = BertConfig(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
BertModel(config).save_pretrained("bert")
BertTokenizer("vocab.txt").save_pretrained("bert")
transformer = models.Transformer("bert")
body = SentenceTransformer(modules=[transformer, models.Pooling(transformer.get_word_embedding_dimension())])
head = SetFitHead(in_features=32, out_features=2)
model = SetFitModel(model_body=body, model_head=head.to("cuda"), labels=["negative", "positive"]).to("cuda")


def dataset(size):
    texts = [" ".join([*random.choices(words, k=5), random.choice(good if i % 2 else bad)]) for i in range(size)]
    return Dataset.from_dict({"text": texts, "label": [i % 2 for i in range(size)]})


arguments = TrainingArguments(
    output_dir="out",
    batch_size=(8, 4),
    num_epochs=(1, 2),
    num_iterations=5,
    end_to_end=True,
    body_learning_rate=(1e-3, 1e-4),
    head_learning_rate=1e-2,
    logging_steps=5,
    save_strategy="no",
    report_to="none",
    show_progress_bar=False,
)
trainer = Trainer(
    model=model,
    args=arguments,
    train_dataset=dataset(16),
    eval_dataset=dataset(16),
    metric=lambda predicted, wanted: {"accuracy": (predicted == torch.tensor(wanted)).float().mean().item()},
)
trainer.remove_callback(PrinterCallback)  # it prints times
with contextlib.redirect_stdout(sys.stderr):  # what is printed tells how long it took
    trainer.train()
metrics = trainer.evaluate()
predictions = model.predict(["the plot was lovely", "the actor was awful"])
states = {"body": dict(model.model_body.state_dict()), "head": dict(model.model_head.state_dict())}
results = {"metrics": metrics, "predictions": list(predictions), **states}
