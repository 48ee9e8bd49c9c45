"""A small Llama of random weights, fine-tuned by torchtune's recipe for LoRA on a single device."""

import json
import random
import runpy
from pathlib import Path

import sentencepiece
import torch
import torchtune
from omegaconf import OmegaConf
from torchtune.models.llama2 import llama2

random.seed(0)
torch.manual_seed(0)
words = ["red", "blue", "green", "cat", "dog", "bird", "runs", "sleeps", "sings", "fast", "slow", "loud"]
texts = [" ".join(random.choices(words, k=6)) for _ in range(48)]
Path("data.json").write_text(json.dumps([{"input": each, "output": each.upper()} for each in texts]))
sentences = iter(texts + [each.upper() for each in texts])
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=sentences, model_prefix="tokenizer", vocab_size=64, hard_vocab_limit=False, minloglevel=2
)
sizes = {"vocab_size": 64, "num_layers": 2, "num_heads": 2, "num_kv_heads": 2, "embed_dim": 32, "max_seq_len": 128}
Path("base").mkdir()
torch.save(llama2(**sizes).state_dict(), "base/model.pt")

recipes = Path(torchtune.__file__).parents[1] / "recipes"
config = OmegaConf.merge(
    OmegaConf.load(recipes / "configs" / "llama2" / "7B_lora_single_device.yaml"),
    {
        "output_dir": "out",
        "model": {"_component_": "torchtune.models.llama2.lora_llama2", **sizes},
        "tokenizer": {"path": "tokenizer.model"},
        "checkpointer": {
            "_component_": "torchtune.training.FullModelTorchTuneCheckpointer",
            "checkpoint_dir": "base",
            "checkpoint_files": ["model.pt"],
        },
        "dataset": {
            "_component_": "torchtune.datasets.instruct_dataset",
            "source": "json",
            "data_files": "data.json",
            "cache_dir": "cache",
        },
        "seed": 0,
        "batch_size": 4,
        "optimizer": {"lr": 3e-3},
        "lr_scheduler": {"num_warmup_steps": 4},
        "epochs": 2,
        "gradient_accumulation_steps": 2,
        "metric_logger": {"filename": "log.txt"},
        "dtype": "fp32",
        "enable_activation_checkpointing": False,
    },
)
recipe = runpy.run_path(str(recipes / "lora_finetune_single_device.py"))["LoRAFinetuneRecipeSingleDevice"](cfg=config)
recipe.setup(cfg=config)
recipe.train()
recipe.cleanup()
results = {"steps": recipe.global_step, "state": dict(recipe._model.state_dict())}
