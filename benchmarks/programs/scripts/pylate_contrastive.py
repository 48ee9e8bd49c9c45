"""A small ColBERT of random weights, trained contrastively on triplets as pylate's documentation shows."""

import random

from datasets import Dataset
from pylate import evaluation, losses, models, utils
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from transformers import BertConfig, BertModel, BertTokenizer, PrinterCallback, set_seed

set_seed(0)
words = ["red", "blue", "green", "cat", "dog", "bird", "runs", "sleeps", "sings", "fast", "slow", "loud"]
with open("vocab.txt", "w") as file:
    file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
config = BertConfig(vocab_size=17, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
BertModel(config).save_pretrained("bert")
BertTokenizer("vocab.txt").save_pretrained("bert")
model = models.ColBERT(model_name_or_path="bert", embedding_size=16, document_length=32, device="cuda")


def triplets(size):
    rows = [[" ".join(random.choices(words, k=6)) for _ in range(3)] for _ in range(size)]
    names = "query", "positive", "negative"
    return Dataset.from_dict({name: [row[i] for row in rows] for i, name in enumerate(names)})


train, test = triplets(64), triplets(16)
arguments = SentenceTransformerTrainingArguments(
    output_dir="out",
    num_train_epochs=2,
    per_device_train_batch_size=8,
    per_device_eval_batch_size=8,
    learning_rate=1e-3,
    eval_strategy="epoch",
    save_strategy="no",
    logging_steps=4,
    report_to="none",
    disable_tqdm=True,
)
evaluator = evaluation.ColBERTTripletEvaluator(
    anchors=test["query"], positives=test["positive"], negatives=test["negative"]
)
trainer = SentenceTransformerTrainer(
    model=model,
    args=arguments,
    train_dataset=train,
    eval_dataset=test,
    loss=losses.Contrastive(model=model),
    evaluator=evaluator,
    data_collator=utils.ColBERTCollator(model.tokenize),
)
trainer.remove_callback(PrinterCallback)  # it prints times
trainer.train()
history = [{k: v for k, v in each.items() if "loss" in k or "accuracy" in k} for each in trainer.state.log_history]
queries = model.encode(test["query"], is_query=True, convert_to_tensor=True, show_progress_bar=False)
results = {"history": history, "queries": list(queries), "state": dict(model.state_dict())}
