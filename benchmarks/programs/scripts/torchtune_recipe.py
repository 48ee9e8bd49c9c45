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
texts = [" ".join(random.choices(words, k=6)) for _ in range(64)]
Path("data.json").write_text(json.dumps([{"input": each, "output": each.upper()} for each in texts]))
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(texts + [each.upper() for each in texts]),
    model_prefix="tokenizer",
    vocab_size=64,
    hard_vocab_limit=False,
    minloglevel=2,
)
sizes = {"vocab_size": 64, "num_layers": 2, "num_heads": 2, "num_kv_heads": 2, "embed_dim": 32, "max_seq_len": 128}
Path("base").mkdir()
torch.save(llama2(**sizes).state_dict(), "base/model.pt")
config = OmegaConf.create(
    {
        "output_dir": "out",
        "model": {
            "_component_": "torchtune.models.llama2.lora_llama2",
            "lora_attn_modules": ["q_proj", "v_proj", "output_proj"],
            "apply_lora_to_mlp": True,
            "lora_rank": 8,
            "lora_alpha": 16,
            **sizes,
        },
        "tokenizer": {"_component_": "torchtune.models.llama2.llama2_tokenizer", "path": "tokenizer.model"},
        "checkpointer": {
            "_component_": "torchtune.training.FullModelTorchTuneCheckpointer",
            "checkpoint_dir": "base",
            "checkpoint_files": ["model.pt"],
            "output_dir": "${output_dir}",
            "model_type": "LLAMA2",
        },
        "resume_from_checkpoint": False,
        "dataset": {
            "_component_": "torchtune.datasets.instruct_dataset",
            "source": "json",
            "data_files": "data.json",
            "split": "train",
            "cache_dir": "cache",
        },
        "seed": 0,
        "shuffle": True,
        "batch_size": 4,
        "optimizer": {"_component_": "torch.optim.AdamW", "fused": True, "weight_decay": 0.01, "lr": 3e-3},
        "lr_scheduler": {
            "_component_": "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",
            "num_warmup_steps": 4,
        },
        "loss": {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"},
        "epochs": 2,
        "max_steps_per_epoch": None,
        "gradient_accumulation_steps": 2,
        "clip_grad_norm": None,
        "compile": False,
        "metric_logger": {
            "_component_": "torchtune.training.metric_logging.DiskLogger",
            "log_dir": "logs",
            "filename": "log.txt",
        },
        "log_every_n_steps": 1,
        "log_peak_memory_stats": True,
        "device": "cuda",
        "dtype": "fp32",
    }
)
recipes = Path(torchtune.__file__).parents[1] / "recipes"
recipe = runpy.run_path(str(recipes / "lora_finetune_single_device.py"))["LoRAFinetuneRecipeSingleDevice"](cfg=config)
recipe.setup(cfg=config)
recipe.train()
recipe.cleanup()
results = {"steps": recipe.global_step, "state": dict(recipe._model.state_dict())}
