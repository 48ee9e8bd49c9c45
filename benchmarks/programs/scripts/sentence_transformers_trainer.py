"""A sentence embedding model trained on pairs with SentenceTransformerTrainer, as the documentation shows."""

import random

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
    models,
)
from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator
from transformers import BertConfig, BertModel, BertTokenizer, PrinterCallback

random.seed(0)
torch.manual_seed(0)
words = ["red", "blue", "green", "cat", "dog", "bird", "runs", "sleeps", "sings", "fast", "slow", "loud"]
with open("vocab.txt", "w") as file:
    file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
config = BertConfig(vocab_size=17, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
BertModel(config).save_pretrained("bert")
BertTokenizer("vocab.txt").save_pretrained("bert")
transformer = models.Transformer("bert")
model = SentenceTransformer(modules=[transformer, models.Pooling(transformer.get_word_embedding_dimension())])


def sentence():
    return " ".join(random.choices(words, k=random.randint(3, 8)))


train = Dataset.from_dict({"anchor": [sentence() for _ in range(64)], "positive": [sentence() for _ in range(64)]})
pairs = [sentence() for _ in range(16)], [sentence() for _ in range(16)]
evaluator = EmbeddingSimilarityEvaluator(*pairs, [i / 16 for i in range(16)])
arguments = SentenceTransformerTrainingArguments(
    output_dir="out",
    num_train_epochs=2,
    per_device_train_batch_size=8,
    learning_rate=1e-3,
    warmup_steps=2,
    eval_strategy="epoch",
    save_strategy="no",
    logging_steps=4,
    report_to="none",
    disable_tqdm=True,
)
trainer = SentenceTransformerTrainer(
    model=model,
    args=arguments,
    train_dataset=train,
    loss=losses.MultipleNegativesRankingLoss(model),
    evaluator=evaluator,
)
trainer.remove_callback(PrinterCallback)  # it prints times
trainer.train()
kept = "loss", "eval_pearson_cosine", "eval_spearman_cosine"
history = [{k: v for k, v in each.items() if k in kept} for each in trainer.state.log_history]
embeddings = model.encode([sentence() for _ in range(20)], convert_to_tensor=True)
results = {"history": history, "embeddings": embeddings, "state": dict(model.state_dict())}
