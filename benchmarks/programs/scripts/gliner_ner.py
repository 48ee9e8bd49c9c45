"""A small GLiNER of random weights, trained to find named entities with its `train_model`."""

import contextlib
import random
import sys

from gliner import GLiNER, GLiNERConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, set_seed

set_seed(0)
people, places, words = ["ada", "alan", "grace"], ["london", "paris", "rome"], ["went", "to", "met", "in", "the", "and"]
labels = ["person", "city"]
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
vocabulary = {word: i for i, word in enumerate([*special, *labels, *people, *places, *words])}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
).save_pretrained("encoder")
encoder = BertConfig(
    vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
)
BertModel(encoder).save_pretrained("encoder")


def example():
    text = [random.choice(people), *random.choices(words, k=4), random.choice(places), *random.choices(words, k=2)]
    return {"tokenized_text": text, "ner": [[0, 0, "person"], [5, 5, "city"]]}


config = GLiNERConfig(model_name="encoder", hidden_size=32, dropout=0.1, max_width=4, max_len=64)
model = GLiNER.from_config(config, map_location="cuda")
with contextlib.redirect_stdout(sys.stderr):  # the trainer prints times
    trainer = model.train_model(
        train_dataset=[example() for _ in range(64)],
        eval_dataset=[example() for _ in range(16)],
        output_dir="models",
        max_steps=16,
        per_device_train_batch_size=8,
        learning_rate=1e-3,
        others_lr=1e-3,
        dataloader_num_workers=0,
        logging_steps=4,
        eval_strategy="steps",
        eval_steps=8,
        save_steps=8,
        disable_tqdm=True,
    )
kept = "loss", "grad_norm", "learning_rate", "eval_loss"
history = [{k: v for k, v in each.items() if k in kept} for each in trainer.state.log_history]
entities = model.inference(["ada went to paris and met grace"], labels, threshold=0.1)
results = {"history": history, "entities": entities, "state": dict(model.state_dict())}
